"""Tools of a warehouse: what lies in which bin, what customers ordered, and what is bought from whom."""

import sqlite3


def _held(db: sqlite3.Connection, item: str) -> bool:
    row = db.execute("SELECT held FROM items WHERE item = ?", (item,)).fetchone()
    if row is None:
        raise ValueError(f"there is no item {item}.")
    return bool(row[0])


def _suspended(db: sqlite3.Connection, supplier: str) -> bool:
    row = db.execute("SELECT suspended FROM suppliers WHERE supplier = ?", (supplier,)).fetchone()
    if row is None:
        raise ValueError(f"there is no supplier {supplier}.")
    return bool(row[0])


def items_in(db: sqlite3.Connection, category: str) -> dict[str, object]:
    """The items of a category with their weights in grams."""
    rows = db.execute("SELECT item, weight FROM items WHERE category = ?", (category,)).fetchall()
    return {"items": [{"item": item, "weight": weight} for item, weight in rows]}


def bins_with(db: sqlite3.Connection, item: str) -> dict[str, object]:
    """The bins in which an item lies, and how many pieces."""
    rows = db.execute("SELECT bin, quantity FROM stock WHERE item = ?", (item,)).fetchall()
    return {"bins": [{"bin": name, "held_there": quantity} for name, quantity in rows]}


def bins_in(db: sqlite3.Connection, zone: str) -> dict[str, object]:
    """The bins of a zone, and for how many more pieces each has room."""
    rows = db.execute("SELECT bin, room FROM bins WHERE zone = ?", (zone,)).fetchall()
    return {"bins": [{"bin": name, "room": room} for name, room in rows]}


def contents_of(db: sqlite3.Connection, bin: str) -> dict[str, object]:
    """The items that lie in a bin."""
    rows = db.execute("SELECT item, quantity FROM stock WHERE bin = ?", (bin,)).fetchall()
    return {"contents": [{"item": item, "held_there": quantity} for item, quantity in rows]}


def put_away(db: sqlite3.Connection, item: str, bin: str, quantity: int) -> dict[str, object]:
    """Put pieces of an item into a bin that has room for them."""
    _held(db, item)
    row = db.execute("SELECT room FROM bins WHERE bin = ?", (bin,)).fetchone()
    if row is None:
        raise ValueError(f"there is no bin {bin}.")
    if quantity <= 0 or row[0] < quantity:
        raise ValueError(f"{bin} has room for {row[0]} pieces, not for {quantity}.")
    db.execute("UPDATE bins SET room = room - ? WHERE bin = ?", (quantity, bin))
    done = db.execute("UPDATE stock SET quantity = quantity + ? WHERE item = ? AND bin = ?", (quantity, item, bin))
    if done.rowcount == 0:
        db.execute("INSERT INTO stock (item, bin, quantity) VALUES (?, ?, ?)", (item, bin, quantity))
    return {"put": quantity}


def take_out(db: sqlite3.Connection, item: str, bin: str, quantity: int) -> dict[str, object]:
    """Take pieces of an item out of a bin; an item on hold stays where it is."""
    if _held(db, item):
        raise ValueError(f"{item} is on hold.")
    row = db.execute("SELECT quantity FROM stock WHERE item = ? AND bin = ?", (item, bin)).fetchone()
    if row is None or quantity <= 0 or row[0] < quantity:
        raise ValueError(f"{bin} holds {row[0] if row else 0} pieces of {item}, not {quantity}.")
    db.execute("UPDATE stock SET quantity = quantity - ? WHERE item = ? AND bin = ?", (quantity, item, bin))
    db.execute("UPDATE bins SET room = room + ? WHERE bin = ?", (quantity, bin))
    return {"taken": quantity}


def place_hold(db: sqlite3.Connection, item: str) -> dict[str, object]:
    """Put an item on hold."""
    if _held(db, item):
        raise ValueError(f"{item} is on hold already.")
    db.execute("UPDATE items SET held = 1 WHERE item = ?", (item,))
    return {"on_hold": item}


def release_hold(db: sqlite3.Connection, item: str) -> dict[str, object]:
    """Take an item off hold."""
    if not _held(db, item):
        raise ValueError(f"{item} is not on hold.")
    db.execute("UPDATE items SET held = 0 WHERE item = ?", (item,))
    return {"released": item}


def orders_of(db: sqlite3.Connection, customer: str) -> dict[str, object]:
    """A customer's orders that are open."""
    rows = db.execute(
        "SELECT order_code, item FROM orders WHERE customer = ? AND status = 'open'", (customer,)
    ).fetchall()
    return {"orders": [{"order_code": code, "item": item} for code, item in rows]}


def item_ordered(db: sqlite3.Connection, order_code: str) -> dict[str, object]:
    """What an order is for."""
    row = db.execute("SELECT item FROM orders WHERE order_code = ?", (order_code,)).fetchone()
    if row is None:
        raise ValueError(f"there is no order {order_code}.")
    return {"item": row[0]}


def ship_order(db: sqlite3.Connection, order_code: str) -> dict[str, object]:
    """Mark an open order as shipped."""
    done = db.execute("UPDATE orders SET status = 'shipped' WHERE order_code = ? AND status = 'open'", (order_code,))
    if done.rowcount == 0:
        raise ValueError(f"{order_code} is not open.")
    return {"shipped": order_code}


def reopen_order(db: sqlite3.Connection, order_code: str) -> dict[str, object]:
    """Open an order again that was cancelled."""
    done = db.execute("UPDATE orders SET status = 'open' WHERE order_code = ? AND status = 'cancelled'", (order_code,))
    if done.rowcount == 0:
        raise ValueError(f"{order_code} was not cancelled.")
    return {"open": order_code}


def cancel_order(db: sqlite3.Connection, order_code: str) -> dict[str, object]:
    """Cancel an open order."""
    done = db.execute("UPDATE orders SET status = 'cancelled' WHERE order_code = ? AND status = 'open'", (order_code,))
    if done.rowcount == 0:
        raise ValueError(f"{order_code} is not open.")
    return {"cancelled": order_code}


def offers_for(db: sqlite3.Connection, item: str) -> dict[str, object]:
    """Who sells an item, and the cost of a piece."""
    rows = db.execute("SELECT supplier, cost FROM offers WHERE item = ?", (item,)).fetchall()
    return {"offers": [{"supplier": supplier, "cost": cost} for supplier, cost in rows]}


def buy(db: sqlite3.Connection, supplier: str, item: str, pieces: int) -> dict[str, object]:
    """Buy pieces of an item from a supplier who offers it and is not suspended."""
    if _suspended(db, supplier):
        raise ValueError(f"{supplier} is suspended.")
    if not db.execute("SELECT 1 FROM offers WHERE supplier = ? AND item = ?", (supplier, item)).fetchone():
        raise ValueError(f"{supplier} does not sell {item}.")
    if db.execute("SELECT 1 FROM purchases WHERE supplier = ? AND item = ?", (supplier, item)).fetchone():
        raise ValueError(f"{item} is on its way from {supplier} already.")
    db.execute("INSERT INTO purchases (supplier, item, pieces) VALUES (?, ?, ?)", (supplier, item, pieces))
    return {"bought": pieces}


def cancel_purchase(db: sqlite3.Connection, supplier: str, item: str) -> dict[str, object]:
    """Cancel what is on its way from a supplier."""
    if db.execute("DELETE FROM purchases WHERE supplier = ? AND item = ?", (supplier, item)).rowcount == 0:
        raise ValueError(f"no {item} is on its way from {supplier}.")
    return {"cancelled": item}


def reinstate_supplier(db: sqlite3.Connection, supplier: str) -> dict[str, object]:
    """End a supplier's suspension."""
    if not _suspended(db, supplier):
        raise ValueError(f"{supplier} is not suspended.")
    db.execute("UPDATE suppliers SET suspended = 0 WHERE supplier = ?", (supplier,))
    return {"reinstated": supplier}


def suspend_supplier(db: sqlite3.Connection, supplier: str) -> dict[str, object]:
    """Suspend a supplier."""
    if _suspended(db, supplier):
        raise ValueError(f"{supplier} is suspended already.")
    db.execute("UPDATE suppliers SET suspended = 1 WHERE supplier = ?", (supplier,))
    return {"suspended": supplier}
