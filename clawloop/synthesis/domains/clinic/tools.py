"""Tools of a clinic's front desk: referrals, visits, prescriptions and what patients owe."""

import sqlite3


def _patient(db: sqlite3.Connection, patient: str) -> tuple[int, int]:
    row = db.execute("SELECT balance, consent FROM patients WHERE patient = ?", (patient,)).fetchone()
    if row is None:
        raise ValueError(f"there is no patient {patient}.")
    return int(row[0]), int(row[1])


def find_clinicians(db: sqlite3.Connection, specialty: str) -> dict[str, object]:
    """The clinicians of a specialty with their fees."""
    rows = db.execute("SELECT clinician, fee, room FROM clinicians WHERE specialty = ?", (specialty,)).fetchall()
    return {"clinicians": [{"clinician": name, "fee": fee, "room": room} for name, fee, room in rows]}


def free_times(db: sqlite3.Connection, clinician: str, day: str) -> dict[str, object]:
    """The times of a day that a clinician offers and nobody has."""
    rows = db.execute(
        "SELECT time FROM slots WHERE clinician = ? AND day = ? AND time NOT IN "
        "(SELECT time FROM visits WHERE visits.clinician = slots.clinician AND visits.day = slots.day)",
        (clinician, day),
    ).fetchall()
    return {"times": [{"time": time} for (time,) in rows]}


def visits_on(db: sqlite3.Connection, clinician: str, day: str) -> dict[str, object]:
    """Who sees a clinician on a day, and when."""
    rows = db.execute("SELECT patient, time FROM visits WHERE clinician = ? AND day = ?", (clinician, day)).fetchall()
    return {"visits": [{"patient": patient, "time": time} for patient, time in rows]}


def book_visit(db: sqlite3.Connection, patient: str, clinician: str, day: str, time: str) -> dict[str, object]:
    """Give a patient a time that is free; nobody who owes money gets one."""
    if _patient(db, patient)[0] > 0:
        raise ValueError(f"{patient} has an unpaid balance.")
    slot = (clinician, day, time)
    if db.execute("SELECT 1 FROM slots WHERE clinician = ? AND day = ? AND time = ?", slot).fetchone() is None:
        raise ValueError(f"{clinician} does not offer {day} at {time}.")
    if db.execute("SELECT 1 FROM visits WHERE clinician = ? AND day = ? AND time = ?", slot).fetchone():
        raise ValueError(f"{clinician} is taken on {day} at {time}.")
    db.execute("INSERT INTO visits (patient, clinician, day, time) VALUES (?, ?, ?, ?)", (patient, *slot))
    return {"booked": patient}


def cancel_visit(db: sqlite3.Connection, clinician: str, day: str, time: str) -> dict[str, object]:
    """Cancel the visit at a time."""
    done = db.execute("DELETE FROM visits WHERE clinician = ? AND day = ? AND time = ?", (clinician, day, time))
    if done.rowcount == 0:
        raise ValueError(f"{clinician} has no visit on {day} at {time}.")
    return {"cancelled": done.rowcount}


def settle_balance(db: sqlite3.Connection, patient: str) -> dict[str, object]:
    """Take payment of all that a patient owes."""
    owed = _patient(db, patient)[0]
    if owed == 0:
        raise ValueError(f"{patient} owes nothing.")
    db.execute("UPDATE patients SET balance = 0 WHERE patient = ?", (patient,))
    return {"paid": owed}


def charge_patient(db: sqlite3.Connection, patient: str, amount: int) -> dict[str, object]:
    """Add an amount to what a patient owes."""
    if amount <= 0:
        raise ValueError(f"a charge must be above zero, not {amount}.")
    owed = _patient(db, patient)[0] + amount
    db.execute("UPDATE patients SET balance = ? WHERE patient = ?", (owed, patient))
    return {"owed": owed}


def referral_of(db: sqlite3.Connection, patient: str) -> dict[str, object]:
    """The specialty that a patient is referred to."""
    row = db.execute("SELECT specialty FROM referrals WHERE patient = ?", (patient,)).fetchone()
    if row is None:
        raise ValueError(f"{patient} has no referral.")
    return {"specialty": row[0]}


def refer_patient(db: sqlite3.Connection, patient: str, specialty: str) -> dict[str, object]:
    """Refer a patient to a specialty; an open referral must be closed first."""
    _patient(db, patient)
    if db.execute("SELECT 1 FROM referrals WHERE patient = ?", (patient,)).fetchone():
        raise ValueError(f"{patient} has an open referral.")
    db.execute("INSERT INTO referrals (patient, specialty) VALUES (?, ?)", (patient, specialty))
    return {"referred": patient}


def close_referral(db: sqlite3.Connection, patient: str) -> dict[str, object]:
    """Close a patient's referral."""
    if db.execute("DELETE FROM referrals WHERE patient = ?", (patient,)).rowcount == 0:
        raise ValueError(f"{patient} has no referral.")
    return {"closed": patient}


def drugs_for(db: sqlite3.Connection, illness: str) -> dict[str, object]:
    """The drugs against an illness with their prices, recalled ones left out."""
    rows = db.execute("SELECT drug, price FROM drugs WHERE illness = ? AND recalled = 0", (illness,)).fetchall()
    return {"drugs": [{"drug": drug, "price": price} for drug, price in rows]}


def prescribe(db: sqlite3.Connection, patient: str, drug: str, doses: int) -> dict[str, object]:
    """Prescribe a drug that the patient does not have yet; the patient must have consented."""
    if _patient(db, patient)[1] == 0:
        raise ValueError(f"{patient} has not consented to treatment.")
    row = db.execute("SELECT recalled FROM drugs WHERE drug = ?", (drug,)).fetchone()
    if row is None or row[0]:
        raise ValueError(f"{drug} is not to be had.")
    if db.execute("SELECT 1 FROM prescriptions WHERE patient = ? AND drug = ?", (patient, drug)).fetchone():
        raise ValueError(f"{patient} has {drug} already.")
    db.execute("INSERT INTO prescriptions (patient, drug, doses) VALUES (?, ?, ?)", (patient, drug, doses))
    return {"prescribed": drug}


def prescriptions_of(db: sqlite3.Connection, patient: str) -> dict[str, object]:
    """The drugs that a patient has."""
    rows = db.execute("SELECT drug, doses FROM prescriptions WHERE patient = ?", (patient,)).fetchall()
    return {"prescriptions": [{"drug": drug, "doses": doses} for drug, doses in rows]}


def stop_drug(db: sqlite3.Connection, patient: str, drug: str) -> dict[str, object]:
    """Take a drug off a patient's list."""
    if db.execute("DELETE FROM prescriptions WHERE patient = ? AND drug = ?", (patient, drug)).rowcount == 0:
        raise ValueError(f"{patient} does not have {drug}.")
    return {"stopped": drug}


def record_consent(db: sqlite3.Connection, patient: str) -> dict[str, object]:
    """Record that a patient consents to treatment."""
    if _patient(db, patient)[1]:
        raise ValueError(f"{patient} has consented already.")
    db.execute("UPDATE patients SET consent = 1 WHERE patient = ?", (patient,))
    return {"consented": patient}
