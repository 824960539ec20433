"""Records of a field service company, in the tables that the server makes."""

import random
import sqlite3

FIRST = ("Ada", "Bela", "Caro", "Dara", "Edo", "Femi", "Gita", "Hana", "Ivo", "Jana", "Kofi", "Lena", "Milo", "Nora")
LAST = ("Aalto", "Berg", "Castro", "Dufek", "Eriks", "Faber", "Gomez", "Hauge", "Ilves", "Jansa", "Kovac", "Lund")
CITIES = ("Riga", "Porto", "Ghent", "Turku")
OWNERS = ("hamza", "sana", "ali")
WORK = ("Service the boiler", "Replace the pump", "Inspect the lift", "Seal the windows", "Clean the ducts")
DEALS = ("Cooling contract", "Roof repair", "Cleaning programme", "Plumbing refit", "Yearly maintenance")
NOTES = ("Called about the invoice", "Site visit is done", "Budget is approved", "Complained about the delay")
ITEMS = ("AC-UNIT", "FILTER", "GAS-TANK", "WATER-PUMP", "PVC-PIPE", "CLEAN-KIT", "VACUUM", "THERMOSTAT", "DUCT-TAPE")
MADE = "2031-01-01T08:00:00Z"


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Sixteen contacts in four cities with deals, tasks, notes and orders, and nine items.

    Numbers have four digits: those that the server draws for new records have five.
    """

    def add(table: str, *values: object) -> None:
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 16)
    contacts = [f"C-{number}" for number in rng.sample(range(1100, 9900), len(names))]
    worth = iter(rng.sample(range(4100, 99000), 48))
    days = iter(rng.sample([f"2090-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)], 48))
    deals, tasks, orders = (iter(rng.sample(range(1100, 9900), 48)) for _ in range(3))
    for i, (contact, name) in enumerate(zip(contacts, names, strict=True)):
        mail, phone = name.lower().replace(" ", ".") + "@example.org", f"+3716{rng.randrange(10**6, 10**7)}"
        firm = f"{name.split()[1]} & Co"
        add("contacts", contact, name, firm, mail, phone, CITIES[i % 4], rng.choice(OWNERS), "[]", MADE)
        for title in rng.sample(DEALS, rng.randint(1, 3)):
            stage = rng.choice(["new", "qualified", "proposal"])
            add("deals", f"D-{next(deals)}", contact, title, stage, next(worth), "2090-12-31", MADE)
        for title in rng.sample(WORK, rng.randint(1, 3)):
            done = rng.random() < 0.2
            task, status = f"T-{next(tasks)}", "done" if done else "open"
            add("tasks", task, contact, title, next(days), rng.choice(OWNERS), status, MADE, MADE if done else None)
        add("notes", f"N-{4100 + i}", contact, rng.choice(NOTES), rng.choice(OWNERS), MADE)
    prices = rng.sample(range(20, 2400), len(ITEMS))
    for i, item in enumerate(ITEMS):
        level = rng.randint(4, 30)
        stock = level - rng.randint(0, 3) if i % 2 else level + rng.randint(1, 60)
        add("inventory", item, item.capitalize(), stock, level, prices[i], rng.choice(["Nord Parts", "Baltic Tools"]))
    for contact in contacts:
        for i in rng.sample(range(len(ITEMS)), rng.randint(1, 3)):
            qty = rng.randint(4, 9)
            status = rng.choice(["confirmed", "shipped"])
            add("orders", f"SO-{next(orders)}", contact, ITEMS[i], qty, qty * prices[i], status, MADE)
