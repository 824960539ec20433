"""Records of a clinic."""

import random
import sqlite3

FIRST = ("Ada", "Bela", "Caro", "Dara", "Edo", "Femi", "Gita", "Hana", "Ivo", "Jana", "Kofi", "Lena", "Milo", "Nora")
LAST = ("Aalto", "Berg", "Castro", "Dufek", "Eriks", "Faber", "Gomez", "Hauge", "Ilves", "Jansa", "Kovac", "Lund")
SPECIALTIES = ("cardiology", "dermatology", "neurology", "orthopedics")
ILLNESSES = ("asthma", "eczema", "gout", "migraine")


def fill(db: sqlite3.Connection, rng: random.Random) -> None:
    """Sixteen patients, twelve clinicians over four days, drugs, referrals and visits."""
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    chosen = rng.sample(names, 28)
    patients, clinicians = chosen[:16], [f"Dr {name}" for name in chosen[16:]]
    for name in patients:
        balance, consent = rng.choice([0, 0, rng.randrange(1500, 9000)]), int(rng.random() < 0.6)
        insurer = rng.choice(["Alpina", "Fides", "Tutela"])
        db.execute("INSERT INTO patients VALUES (?, ?, ?, ?)", (name, insurer, balance, consent))
    fees = rng.sample(range(4000, 9900), len(clinicians))
    days = [f"2031-{rng.randint(1, 12):02d}-{day:02d}" for day in rng.sample(range(1, 29), 4)]
    for i, name in enumerate(clinicians):
        room = f"R{rng.randint(10, 99)}"
        db.execute("INSERT INTO clinicians VALUES (?, ?, ?, ?)", (name, SPECIALTIES[i % 4], fees[i], room))
        for day in days:
            for time in rng.sample([f"{hour:02d}:{minute}" for hour in range(8, 17) for minute in ("00", "30")], 6):
                db.execute("INSERT INTO slots VALUES (?, ?, ?)", (name, day, time))
                if rng.random() < 0.4:
                    db.execute(
                        "INSERT INTO visits (patient, clinician, day, time) VALUES (?, ?, ?, ?)",
                        (rng.choice(patients), name, day, time),
                    )
    for name in rng.sample(patients, 10):
        db.execute("INSERT INTO referrals VALUES (?, ?)", (name, rng.choice(SPECIALTIES)))
    stems = rng.sample(["Ara", "Beno", "Cali", "Dor", "Epi", "Fen", "Glo", "Hex", "Ino", "Jul", "Kem", "Lax"], 12)
    prices = rng.sample(range(300, 2900), 12)
    for i, stem in enumerate(stems):
        drug = stem + rng.choice(["mine", "tane", "zol", "prin"])
        db.execute(
            "INSERT INTO drugs VALUES (?, ?, ?, ?)", (drug, ILLNESSES[i % 4], prices[i], int(rng.random() < 0.1))
        )
    drugs = [drug for (drug,) in db.execute("SELECT drug FROM drugs ORDER BY drug")]
    for name in patients:
        for drug in rng.sample(drugs, rng.randint(1, 3)):
            db.execute(
                "INSERT INTO prescriptions (patient, drug, doses) VALUES (?, ?, ?)", (name, drug, rng.randint(1, 4))
            )
