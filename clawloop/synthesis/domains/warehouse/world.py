"""Records of a warehouse."""

import random
import sqlite3

CATEGORIES = ("bolts", "cables", "filters", "lamps", "valves")
CUSTOMERS = ("Arden Works", "Brook & Sons", "Cedar Mill", "Delta Yard", "Elm Foundry", "Fern Supply")
SUPPLIERS = ("Halden", "Ibsen", "Jotun", "Kestrel", "Lofoten", "Moss", "Narvik", "Orkla")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Twenty items in sixteen bins, orders, suppliers, offers and purchases."""
    items = [f"{CATEGORIES[i % 5][:-1]}-{number}" for i, number in enumerate(rng.sample(range(100, 1000), 20))]
    weights = rng.sample(range(40, 9000), 20)
    for i, item in enumerate(items):
        db.execute("INSERT INTO items VALUES (?, ?, ?, ?)", (item, CATEGORIES[i % 5], weights[i], rng.random() < 0.35))
    rooms = rng.sample(range(25, 90), 16)
    bins = [f"{'ABCD'[i % 4]}{number}" for i, number in enumerate(rng.sample(range(10, 100), 16))]
    for i, bin in enumerate(bins):
        db.execute("INSERT INTO bins VALUES (?, ?, ?)", (bin, ("north", "south", "east", "west")[i % 4], rooms[i]))
    for item in items:
        for bin, quantity in zip(rng.sample(bins, 3), rng.sample(range(12, 70), 3), strict=True):
            db.execute("INSERT INTO stock (item, bin, quantity) VALUES (?, ?, ?)", (item, bin, quantity))
    for number in rng.sample(range(1000, 10000), 26):
        status = rng.choice(["open", "open", "shipped", "cancelled"])
        row = (f"W{number}", rng.choice(CUSTOMERS), rng.choice(items), status)
        db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", row)
    for supplier in SUPPLIERS:
        db.execute("INSERT INTO suppliers VALUES (?, ?)", (supplier, rng.random() < 0.35))
    for item in items:
        for supplier, cost in zip(rng.sample(SUPPLIERS, 4), rng.sample(range(150, 2000), 4), strict=True):
            db.execute("INSERT INTO offers VALUES (?, ?, ?)", (supplier, item, cost))
            if rng.random() < 0.2:
                bought = (supplier, item, rng.randint(5, 60))
                db.execute("INSERT INTO purchases (supplier, item, pieces) VALUES (?, ?, ?)", bought)
