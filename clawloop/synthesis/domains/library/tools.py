"""Tools of a library: titles and copies, loans and fines, reservations."""

import sqlite3


def _member(db: sqlite3.Connection, member: str) -> tuple[int, int]:
    row = db.execute("SELECT fines, expired FROM members WHERE member = ?", (member,)).fetchone()
    if row is None:
        raise ValueError(f"there is no member {member}.")
    return int(row[0]), int(row[1])


def _damaged(db: sqlite3.Connection, copy: str) -> bool:
    row = db.execute("SELECT damaged FROM copies WHERE copy = ?", (copy,)).fetchone()
    if row is None:
        raise ValueError(f"there is no copy {copy}.")
    return bool(row[0])


def titles_on(db: sqlite3.Connection, subject: str) -> dict[str, object]:
    """The titles on a subject with their years."""
    rows = db.execute("SELECT title, year FROM titles WHERE subject = ?", (subject,)).fetchall()
    return {"titles": [{"title": title, "year": year} for title, year in rows]}


def titles_by(db: sqlite3.Connection, author: str) -> dict[str, object]:
    """The titles by an author with their years."""
    rows = db.execute("SELECT title, year FROM titles WHERE author = ?", (author,)).fetchall()
    return {"titles": [{"title": title, "year": year} for title, year in rows]}


def copies_in(db: sqlite3.Connection, title: str) -> dict[str, object]:
    """The copies of a title that nobody has on loan, and their shelves."""
    rows = db.execute(
        "SELECT copy, shelf FROM copies WHERE title = ? AND copy NOT IN (SELECT copy FROM loans)", (title,)
    ).fetchall()
    return {"copies": [{"copy": copy, "shelf": shelf} for copy, shelf in rows]}


def loans_of(db: sqlite3.Connection, member: str) -> dict[str, object]:
    """The copies that a member has on loan, and when they are due."""
    rows = db.execute("SELECT copy, due FROM loans WHERE member = ?", (member,)).fetchall()
    return {"loans": [{"copy": copy, "due": due} for copy, due in rows]}


def borrowers_of(db: sqlite3.Connection, title: str) -> dict[str, object]:
    """Who has a copy of a title on loan, and when it is due."""
    rows = db.execute(
        "SELECT loans.member, loans.due FROM loans JOIN copies ON copies.copy = loans.copy WHERE copies.title = ?",
        (title,),
    ).fetchall()
    return {"borrowers": [{"member": member, "due": due} for member, due in rows]}


def lend(db: sqlite3.Connection, member: str, copy: str, due: str) -> dict[str, object]:
    """Lend a copy that is in and whole to a member without fines."""
    if _member(db, member)[0] > 0:
        raise ValueError(f"{member} has fines to pay.")
    if _damaged(db, copy):
        raise ValueError(f"{copy} is damaged.")
    if db.execute("SELECT 1 FROM loans WHERE copy = ?", (copy,)).fetchone():
        raise ValueError(f"{copy} is on loan.")
    db.execute("INSERT INTO loans (copy, member, due) VALUES (?, ?, ?)", (copy, member, due))
    return {"lent": copy}


def take_back(db: sqlite3.Connection, copy: str) -> dict[str, object]:
    """Take back a copy that is on loan."""
    if db.execute("DELETE FROM loans WHERE copy = ?", (copy,)).rowcount == 0:
        raise ValueError(f"{copy} is not on loan.")
    return {"returned": copy}


def prolong(db: sqlite3.Connection, copy: str, due: str) -> dict[str, object]:
    """Give a loan a later day on which it is due."""
    row = db.execute("SELECT due FROM loans WHERE copy = ?", (copy,)).fetchone()
    if row is None:
        raise ValueError(f"{copy} is not on loan.")
    if due <= row[0]:
        raise ValueError(f"{copy} is due on {row[0]}, which is not before {due}.")
    db.execute("UPDATE loans SET due = ? WHERE copy = ?", (due, copy))
    return {"prolonged": copy}


def pay_fines(db: sqlite3.Connection, member: str) -> dict[str, object]:
    """Take payment of all of a member's fines."""
    owed = _member(db, member)[0]
    if owed == 0:
        raise ValueError(f"{member} has no fines.")
    db.execute("UPDATE members SET fines = 0 WHERE member = ?", (member,))
    return {"paid": owed}


def fine(db: sqlite3.Connection, member: str, amount: int) -> dict[str, object]:
    """Add a fine to what a member owes."""
    if amount <= 0:
        raise ValueError(f"a fine must be above zero, not {amount}.")
    owed = _member(db, member)[0] + amount
    db.execute("UPDATE members SET fines = ? WHERE member = ?", (owed, member))
    return {"owed": owed}


def renew_card(db: sqlite3.Connection, member: str) -> dict[str, object]:
    """Renew a member's card that has expired."""
    if not _member(db, member)[1]:
        raise ValueError(f"the card of {member} has not expired.")
    db.execute("UPDATE members SET expired = 0 WHERE member = ?", (member,))
    return {"renewed": member}


def reserve(db: sqlite3.Connection, member: str, title: str) -> dict[str, object]:
    """Reserve a title for a member whose card has not expired."""
    if _member(db, member)[1]:
        raise ValueError(f"the card of {member} has expired.")
    if not db.execute("SELECT 1 FROM titles WHERE title = ?", (title,)).fetchone():
        raise ValueError(f"there is no title {title}.")
    if db.execute("SELECT 1 FROM reservations WHERE member = ? AND title = ?", (member, title)).fetchone():
        raise ValueError(f"{title} is reserved for {member} already.")
    db.execute("INSERT INTO reservations (member, title) VALUES (?, ?)", (member, title))
    return {"reserved": title}


def drop_reservation(db: sqlite3.Connection, member: str, title: str) -> dict[str, object]:
    """Take back a reservation."""
    if db.execute("DELETE FROM reservations WHERE member = ? AND title = ?", (member, title)).rowcount == 0:
        raise ValueError(f"{title} is not reserved for {member}.")
    return {"dropped": title}


def reservations_of(db: sqlite3.Connection, member: str) -> dict[str, object]:
    """The titles that are reserved for a member, with their years."""
    rows = db.execute(
        "SELECT titles.title, titles.year FROM reservations JOIN titles ON titles.title = reservations.title "
        "WHERE reservations.member = ?",
        (member,),
    ).fetchall()
    return {"reservations": [{"title": title, "year": year} for title, year in rows]}


def mark_damaged(db: sqlite3.Connection, copy: str) -> dict[str, object]:
    """Note that a copy is damaged."""
    if _damaged(db, copy):
        raise ValueError(f"{copy} is damaged already.")
    db.execute("UPDATE copies SET damaged = 1 WHERE copy = ?", (copy,))
    return {"damaged": copy}


def repair(db: sqlite3.Connection, copy: str) -> dict[str, object]:
    """Note that a damaged copy has been repaired."""
    if not _damaged(db, copy):
        raise ValueError(f"{copy} is not damaged.")
    db.execute("UPDATE copies SET damaged = 0 WHERE copy = ?", (copy,))
    return {"repaired": copy}


def shelve(db: sqlite3.Connection, copy: str, shelf: str) -> dict[str, object]:
    """Give a copy another shelf."""
    _damaged(db, copy)
    db.execute("UPDATE copies SET shelf = ? WHERE copy = ?", (shelf, copy))
    return {"shelved": copy}
