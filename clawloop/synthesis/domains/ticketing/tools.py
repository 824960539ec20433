"""Tools of a box office: events and seats, tickets, guests and their credit, waiting lists."""

import sqlite3


def _paused(db: sqlite3.Connection, event: str) -> bool:
    row = db.execute("SELECT paused FROM events WHERE event = ?", (event,)).fetchone()
    if row is None:
        raise ValueError(f"there is no event {event}.")
    return bool(row[0])


def _guest(db: sqlite3.Connection, guest: str) -> tuple[int, int]:
    row = db.execute("SELECT credit, barred FROM guests WHERE guest = ?", (guest,)).fetchone()
    if row is None:
        raise ValueError(f"there is no guest {guest}.")
    return int(row[0]), int(row[1])


def events_in(db: sqlite3.Connection, city: str) -> dict[str, object]:
    """The events in a city and their days."""
    rows = db.execute("SELECT event, day FROM events WHERE city = ?", (city,)).fetchall()
    return {"events": [{"event": event, "day": day} for event, day in rows]}


def events_of(db: sqlite3.Connection, genre: str) -> dict[str, object]:
    """The events of a genre and their days."""
    rows = db.execute("SELECT event, day FROM events WHERE genre = ?", (genre,)).fetchall()
    return {"events": [{"event": event, "day": day} for event, day in rows]}


def free_seats(db: sqlite3.Connection, event: str) -> dict[str, object]:
    """The seats of an event that nobody has, with their prices."""
    rows = db.execute(
        "SELECT seat, price FROM seats WHERE event = ? AND seat NOT IN "
        "(SELECT seat FROM tickets WHERE tickets.event = seats.event)",
        (event,),
    ).fetchall()
    return {"seats": [{"seat": seat, "price": price} for seat, price in rows]}


def tickets_for(db: sqlite3.Connection, event: str) -> dict[str, object]:
    """Who has which seat of an event, and what it costs."""
    rows = db.execute(
        "SELECT tickets.guest, tickets.seat, seats.price FROM tickets JOIN seats "
        "ON seats.event = tickets.event AND seats.seat = tickets.seat WHERE tickets.event = ?",
        (event,),
    ).fetchall()
    return {"tickets": [{"guest": guest, "seat": seat, "price": price} for guest, seat, price in rows]}


def sell(db: sqlite3.Connection, guest: str, event: str, seat: str) -> dict[str, object]:
    """Sell a free seat to a guest who is not barred, unless sales are paused."""
    if _guest(db, guest)[1]:
        raise ValueError(f"{guest} is barred.")
    if _paused(db, event):
        raise ValueError(f"sales for {event} are paused.")
    if not db.execute("SELECT 1 FROM seats WHERE event = ? AND seat = ?", (event, seat)).fetchone():
        raise ValueError(f"{event} has no seat {seat}.")
    if db.execute("SELECT 1 FROM tickets WHERE event = ? AND seat = ?", (event, seat)).fetchone():
        raise ValueError(f"seat {seat} of {event} is sold.")
    db.execute("INSERT INTO tickets (event, seat, guest) VALUES (?, ?, ?)", (event, seat, guest))
    return {"sold": seat}


def refund(db: sqlite3.Connection, event: str, seat: str) -> dict[str, object]:
    """Take back the ticket of a seat."""
    if db.execute("DELETE FROM tickets WHERE event = ? AND seat = ?", (event, seat)).rowcount == 0:
        raise ValueError(f"seat {seat} of {event} is not sold.")
    return {"refunded": seat}


def set_price(db: sqlite3.Connection, event: str, seat: str, price: int) -> dict[str, object]:
    """Give a seat another price."""
    if db.execute("UPDATE seats SET price = ? WHERE event = ? AND seat = ?", (price, event, seat)).rowcount == 0:
        raise ValueError(f"{event} has no seat {seat}.")
    return {"priced": price}


def pause_sales(db: sqlite3.Connection, event: str) -> dict[str, object]:
    """Pause the sales for an event."""
    if _paused(db, event):
        raise ValueError(f"sales for {event} are paused already.")
    db.execute("UPDATE events SET paused = 1 WHERE event = ?", (event,))
    return {"paused": event}


def resume_sales(db: sqlite3.Connection, event: str) -> dict[str, object]:
    """Resume the sales for an event."""
    if not _paused(db, event):
        raise ValueError(f"sales for {event} are not paused.")
    db.execute("UPDATE events SET paused = 0 WHERE event = ?", (event,))
    return {"resumed": event}


def give_credit(db: sqlite3.Connection, guest: str, amount: int) -> dict[str, object]:
    """Add an amount to a guest's credit."""
    credit = _guest(db, guest)[0] + amount
    if amount <= 0:
        raise ValueError(f"a credit must be above zero, not {amount}.")
    db.execute("UPDATE guests SET credit = ? WHERE guest = ?", (credit, guest))
    return {"credited": credit}


def bar_guest(db: sqlite3.Connection, guest: str) -> dict[str, object]:
    """Bar a guest."""
    if _guest(db, guest)[1]:
        raise ValueError(f"{guest} is barred already.")
    db.execute("UPDATE guests SET barred = 1 WHERE guest = ?", (guest,))
    return {"barred": guest}


def pardon_guest(db: sqlite3.Connection, guest: str) -> dict[str, object]:
    """Let a barred guest in again."""
    if not _guest(db, guest)[1]:
        raise ValueError(f"{guest} is not barred.")
    db.execute("UPDATE guests SET barred = 0 WHERE guest = ?", (guest,))
    return {"pardoned": guest}


def waiting_for(db: sqlite3.Connection, event: str) -> dict[str, object]:
    """Who waits for a seat of an event, and the credit that they have."""
    rows = db.execute(
        "SELECT waiting.guest, guests.credit FROM waiting JOIN guests ON guests.guest = waiting.guest "
        "WHERE waiting.event = ?",
        (event,),
    ).fetchall()
    return {"waiting": [{"guest": guest, "credit": credit} for guest, credit in rows]}


def join_list(db: sqlite3.Connection, guest: str, event: str) -> dict[str, object]:
    """Put a guest who is not barred on the waiting list of an event."""
    if _guest(db, guest)[1]:
        raise ValueError(f"{guest} is barred.")
    _paused(db, event)
    if db.execute("SELECT 1 FROM waiting WHERE event = ? AND guest = ?", (event, guest)).fetchone():
        raise ValueError(f"{guest} waits for {event} already.")
    db.execute("INSERT INTO waiting (event, guest) VALUES (?, ?)", (event, guest))
    return {"waiting": guest}


def leave_list(db: sqlite3.Connection, guest: str, event: str) -> dict[str, object]:
    """Take a guest off the waiting list of an event."""
    if db.execute("DELETE FROM waiting WHERE event = ? AND guest = ?", (event, guest)).rowcount == 0:
        raise ValueError(f"{guest} does not wait for {event}.")
    return {"left": guest}
