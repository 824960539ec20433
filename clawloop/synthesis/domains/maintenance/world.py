"""Records of a plant's maintenance."""

import random
import sqlite3

LINES = ("assembly", "bottling", "packing", "welding")
MODELS = ("Kappa 3", "Lambda 5", "Omega 8", "Sigma 1")
CREWS = ("Badger", "Crane", "Falcon", "Gull", "Heron", "Lynx", "Otter", "Raven", "Stoat", "Tern", "Viper", "Wren")
KINDS = ("belt", "gasket", "nozzle", "rotor")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Sixteen machines, twelve crews, services, spares, fittings and faults."""
    machines = [f"{kind}-{number}" for kind, number in zip("MNPQ" * 4, rng.sample(range(100, 1000), 16), strict=True)]
    hours = rng.sample(range(500, 30000), 16)
    for i, machine in enumerate(machines):
        row = (machine, LINES[i // 4], rng.choice(MODELS), hours[i], rng.random() < 0.35)
        db.execute("INSERT INTO machines VALUES (?, ?, ?, ?, ?)", row)
    sizes = rng.sample(range(2, 30), 12)
    for i, crew in enumerate(rng.sample(CREWS, 12)):
        staffed = (crew, ("day", "late", "night")[i % 3], sizes[i], rng.random() < 0.35)
        db.execute("INSERT INTO crews VALUES (?, ?, ?, ?)", staffed)
    days = [f"2031-{rng.randint(1, 12):02d}-{day:02d}" for day in rng.sample(range(1, 29), 8)]
    for machine in machines:
        for day in rng.sample(days, 3):
            planned = (machine, rng.choice(CREWS), day)
            db.execute("INSERT INTO services (machine, crew, day) VALUES (?, ?, ?)", planned)
    stocks = rng.sample(range(0, 90), 20)
    spares = [f"{KINDS[i % 4]} {number}" for i, number in enumerate(rng.sample(range(100, 1000), 20))]
    for i, spare in enumerate(spares):
        db.execute("INSERT INTO spares VALUES (?, ?, ?, ?)", (spare, MODELS[i // 5], stocks[i], rng.random() < 0.35))
    for machine in machines:
        for spare in rng.sample(spares, 2):
            db.execute("INSERT INTO fittings (machine, spare) VALUES (?, ?)", (machine, spare))
    severities = rng.sample(range(10, 100), 48)
    for i, number in enumerate(rng.sample(range(1000, 10000), 48)):
        state = rng.choice(["open", "open", "open", "deferred", "resolved"])
        db.execute("INSERT INTO faults VALUES (?, ?, ?, ?)", (f"F{number}", machines[i % 16], severities[i], state))
