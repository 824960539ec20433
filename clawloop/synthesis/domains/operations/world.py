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
    """Sixteen contacts in four cities, two or three open tasks and deals for most, notes, nine items and orders."""
    names = rng.sample([f"{first} {last}" for first in FIRST for last in LAST], 16)
    contacts = [f"C-{number}" for number in rng.sample(range(1100, 9900), len(names))]
    values = rng.sample(range(4100, 99000), 48)
    days = [f"2090-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)]
    rng.shuffle(days)
    tasks, deals = iter(rng.sample(range(11000, 99000), 64)), iter(rng.sample(range(2100, 9900), 48))
    for i, (contact, name) in enumerate(zip(contacts, names, strict=True)):
        mail = name.lower().replace(" ", ".") + "@example.org"
        row = (contact, name, f"{name.split()[1]} & Co", mail, f"+3716{rng.randrange(10**6, 10**7)}", CITIES[i % 4])
        db.execute("INSERT INTO contacts VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?)", (*row, rng.choice(OWNERS), MADE))
        for title in rng.sample(DEALS, rng.randint(1, 3)):
            row = (f"D-{next(deals)}", contact, title, rng.choice(["new", "qualified", "proposal"]), values.pop())
            db.execute("INSERT INTO deals VALUES (?, ?, ?, ?, ?, '2090-12-31', ?)", (*row, MADE))
        for title in rng.sample(WORK, rng.randint(1, 3)):
            done = rng.random() < 0.2
            row = (f"T-{next(tasks)}", contact, title, days.pop(), rng.choice(OWNERS), "done" if done else "open", MADE)
            db.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, MADE if done else None))
        row = (f"N-{4100 + i}", contact, rng.choice(NOTES), rng.choice(OWNERS), MADE)
        db.execute("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", row)
    prices, numbers = rng.sample(range(20, 2400), len(ITEMS)), iter(rng.sample(range(5100, 9900), 48))
    for i, (item, price) in enumerate(zip(ITEMS, prices, strict=True)):
        level = rng.randint(4, 30)
        row = (item, item.capitalize(), level - rng.randint(0, 3) if i % 2 else level + rng.randint(1, 60), level, price)
        db.execute("INSERT INTO inventory VALUES (?, ?, ?, ?, ?, ?)", (*row, rng.choice(["Nord Parts", "Baltic Tools"])))
    for contact in contacts:
        for i in rng.sample(range(len(ITEMS)), rng.randint(1, 3)):
            qty = rng.randint(4, 9)
            row = (f"SO-{next(numbers)}", contact, ITEMS[i], qty, qty * prices[i], rng.choice(["confirmed", "shipped"]))
            db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, MADE))
