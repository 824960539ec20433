"""Records of a library."""

import random
import sqlite3

MEMBERS = (
    "Agda Roth",
    "Bram Vos",
    "Cleo Hart",
    "Dag Moen",
    "Elsa Quist",
    "Finn Sand",
    "Gro Teig",
    "Hugo Ulv",
    "Iris Vang",
)
MORE = ("Joel Wiik", "Karl Yde", "Liv Zorn", "Mats Aas", "Nina Bo", "Oda Dahl", "Per Eik", "Rut Foss", "Siv Grue")
AUTHORS = ("B. Lindh", "C. Marlow", "D. Nyberg", "E. Osman", "F. Palm")
SUBJECTS = ("astronomy", "gardening", "history", "sailing")
FIRST = ("Quiet", "Northern", "Broken", "Hidden", "Early", "Distant", "Amber", "Hollow", "Winter", "Paper")
LAST = ("Harbours", "Orchards", "Letters", "Rivers", "Lanterns", "Gardens", "Maps", "Bells")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Sixteen members, twenty titles with four copies each, loans and reservations."""
    members = rng.sample(MEMBERS + MORE, 16)
    for member in members:
        row = (member, rng.choice(["harbour", "hill", "station"]), rng.choice([0, rng.randrange(100, 900)]))
        db.execute("INSERT INTO members VALUES (?, ?, ?, ?)", (*row, rng.random() < 0.35))
    titles = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 20)
    years = rng.sample(range(1950, 2031), 20)
    codes = iter(rng.sample(range(1000, 10000), 80))
    for i, title in enumerate(titles):
        db.execute("INSERT INTO titles VALUES (?, ?, ?, ?)", (title, rng.choice(AUTHORS), SUBJECTS[i % 4], years[i]))
        for _ in range(4):
            copy = f"C{next(codes)}"
            told = (copy, title, f"{rng.choice('KLMN')}{rng.randint(1, 60)}", rng.random() < 0.3)
            db.execute("INSERT INTO copies VALUES (?, ?, ?, ?)", told)
            if rng.random() < 0.5:
                due = f"2031-{rng.randint(1, 6):02d}-{rng.randint(1, 28):02d}"
                loan = (copy, rng.choice(members), due)
                db.execute("INSERT INTO loans (copy, member, due) VALUES (?, ?, ?)", loan)
    for member in members:
        for title in rng.sample(titles, rng.randint(0, 3)):
            db.execute("INSERT INTO reservations (member, title) VALUES (?, ?)", (member, title))
