"""Records of a box office."""

import random
import sqlite3

CITIES = ("Aberlour", "Belmont", "Carrick", "Dunmore")
GENRES = ("ballet", "comedy", "jazz", "opera")
FIRST = ("Blue", "Seven", "Last", "Golden", "Paper", "Wild", "Silent", "Royal")
LAST = ("Swans", "Nights", "Clowns", "Trumpets", "Mirrors", "Feathers", "Moons")
NAMES = (
    "Anouk",
    "Basil",
    "Cosima",
    "Dorian",
    "Esme",
    "Fabian",
    "Greta",
    "Horace",
    "Isolde",
    "Jasper",
    "Katya",
    "Linus",
)
FAMILIES = ("Abbott", "Bellamy", "Crane", "Dove", "Everly", "Frost", "Gale", "Hyde")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Twelve events with ten seats each, eighteen guests, tickets and waiting lists."""
    guests = rng.sample([f"{name} {family}" for name in NAMES for family in FAMILIES], 18)
    credits = rng.sample(range(100, 9000), 18)
    for guest, credit in zip(guests, credits, strict=True):
        db.execute("INSERT INTO guests VALUES (?, ?, ?)", (guest, credit, rng.random() < 0.35))
    events = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 12)
    for i, event in enumerate(events):
        day = f"2031-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        row = (event, CITIES[i % 4], GENRES[i // 3], day, rng.random() < 0.4)
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", row)
        seats = rng.sample([f"{letter}{number}" for letter in "ABCDEF" for number in range(10, 40)], 10)
        prices = rng.sample(range(1000, 9900), 10)
        for seat, price in zip(seats, prices, strict=True):
            db.execute("INSERT INTO seats VALUES (?, ?, ?)", (event, seat, price))
            if rng.random() < 0.5:
                sold = (event, seat, rng.choice(guests))
                db.execute("INSERT INTO tickets (event, seat, guest) VALUES (?, ?, ?)", sold)
        for guest in rng.sample(guests, 4):
            db.execute("INSERT INTO waiting (event, guest) VALUES (?, ?)", (event, guest))
