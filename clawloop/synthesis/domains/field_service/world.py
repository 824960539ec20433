"""Records of a field service."""

import random
import sqlite3

TRADES = ("cooling", "electrics", "hydraulics", "plumbing")
MODELS = ("Argo 7", "Boreas 2", "Corvus 4", "Draco 9")
FIRST = ("Alf", "Berit", "Cato", "Dina", "Egil", "Frida", "Geir", "Hilde", "Inge", "Jorunn", "Kai", "Lise")
LAST = ("Arnes", "Bakke", "Dale", "Enger", "Fjeld", "Grov", "Hegge", "Lunde", "Myhre", "Nes")
PLACES = ("Ash", "Birch", "Clay", "Dune", "Fern", "Gorse", "Heath", "Iron", "Juniper", "Kelp", "Larch", "Marsh")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Sixteen technicians, ten sites with four jobs each, their days, parts and orders of parts."""
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 16)
    rates = rng.sample(range(3000, 9900), 16)
    for i, name in enumerate(names):
        db.execute("INSERT INTO technicians VALUES (?, ?, ?, ?)", (name, TRADES[i % 4], rates[i], rng.random() < 0.6))
    sites = [f"{place} {rng.choice(['Hall', 'Depot', 'Works'])}" for place in rng.sample(PLACES, 10)]
    for site in sites:
        row = (site, rng.choice(["coast", "inland", "islands"]), rng.choice(MODELS), rng.random() < 0.35)
        db.execute("INSERT INTO sites VALUES (?, ?, ?, ?)", row)
    jobs = [f"J{number}" for number in rng.sample(range(1000, 10000), 40)]
    for i, job in enumerate(jobs):
        status = rng.choice(["open", "open", "open", "closed"])
        asked = (job, sites[i % 10], rng.choice(TRADES), rng.randint(1, 99), status)
        db.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?)", asked)
    days = [f"2031-{rng.randint(1, 12):02d}-{day:02d}" for day in rng.sample(range(1, 29), 8)]
    places = rng.sample([(name, day) for name in names for day in days], 22)
    for job, (name, day) in zip(rng.sample(jobs, 22), places, strict=True):
        db.execute("INSERT INTO assignments (job, technician, day) VALUES (?, ?, ?)", (job, name, day))
    prices = rng.sample(range(400, 9000), 24)
    parts = [
        f"{kind}-{number}"
        for kind, number in zip(["seal", "pump", "fan"] * 8, rng.sample(range(10, 100), 24), strict=True)
    ]
    for i, part in enumerate(parts):
        db.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", (part, MODELS[i % 4], prices[i], rng.random() < 0.3))
    for site in sites:
        for part, pieces in zip(rng.sample(parts, 3), rng.sample(range(1, 9), 3), strict=True):
            db.execute("INSERT INTO part_orders (site, part, pieces) VALUES (?, ?, ?)", (site, part, pieces))
