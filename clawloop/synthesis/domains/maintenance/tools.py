"""Tools of a plant's maintenance: machines and their services, crews, spares, faults."""

import sqlite3


def _locked(db: sqlite3.Connection, machine: str) -> bool:
    row = db.execute("SELECT locked FROM machines WHERE machine = ?", (machine,)).fetchone()
    if row is None:
        raise ValueError(f"there is no machine {machine}.")
    return bool(row[0])


def _resting(db: sqlite3.Connection, crew: str) -> bool:
    row = db.execute("SELECT resting FROM crews WHERE crew = ?", (crew,)).fetchone()
    if row is None:
        raise ValueError(f"there is no crew {crew}.")
    return bool(row[0])


def machines_on(db: sqlite3.Connection, line: str) -> dict[str, object]:
    """The machines of a line and their hours."""
    rows = db.execute("SELECT machine, hours FROM machines WHERE line = ?", (line,)).fetchall()
    return {"machines": [{"machine": machine, "run_for": hours} for machine, hours in rows]}


def model_of(db: sqlite3.Connection, machine: str) -> dict[str, object]:
    """The model of a machine."""
    row = db.execute("SELECT model FROM machines WHERE machine = ?", (machine,)).fetchone()
    if row is None:
        raise ValueError(f"there is no machine {machine}.")
    return {"model": row[0]}


def crews_of(db: sqlite3.Connection, shift: str) -> dict[str, object]:
    """The crews of a shift and how many people each has."""
    rows = db.execute("SELECT crew, size FROM crews WHERE shift = ?", (shift,)).fetchall()
    return {"crews": [{"crew": crew, "size": size} for crew, size in rows]}


def services_of(db: sqlite3.Connection, machine: str) -> dict[str, object]:
    """The services planned for a machine: their days and crews."""
    rows = db.execute("SELECT day, crew FROM services WHERE machine = ?", (machine,)).fetchall()
    return {"services": [{"day": day, "crew": crew} for day, crew in rows]}


def plan_service(db: sqlite3.Connection, machine: str, crew: str, day: str) -> dict[str, object]:
    """Plan a service by a crew that is not resting; a machine has one service a day, and none while it is locked."""
    if _locked(db, machine):
        raise ValueError(f"{machine} is locked.")
    if _resting(db, crew):
        raise ValueError(f"the crew {crew} is resting.")
    if db.execute("SELECT 1 FROM services WHERE machine = ? AND day = ?", (machine, day)).fetchone():
        raise ValueError(f"{machine} has a service on {day}.")
    db.execute("INSERT INTO services (machine, crew, day) VALUES (?, ?, ?)", (machine, crew, day))
    return {"planned": day}


def drop_service(db: sqlite3.Connection, machine: str, day: str) -> dict[str, object]:
    """Drop the service of a machine on a day."""
    if db.execute("DELETE FROM services WHERE machine = ? AND day = ?", (machine, day)).rowcount == 0:
        raise ValueError(f"{machine} has no service on {day}.")
    return {"dropped": day}


def lock_machine(db: sqlite3.Connection, machine: str) -> dict[str, object]:
    """Lock a machine."""
    if _locked(db, machine):
        raise ValueError(f"{machine} is locked already.")
    db.execute("UPDATE machines SET locked = 1 WHERE machine = ?", (machine,))
    return {"locked": machine}


def unlock_machine(db: sqlite3.Connection, machine: str) -> dict[str, object]:
    """Unlock a machine."""
    if not _locked(db, machine):
        raise ValueError(f"{machine} is not locked.")
    db.execute("UPDATE machines SET locked = 0 WHERE machine = ?", (machine,))
    return {"unlocked": machine}


def log_hours(db: sqlite3.Connection, machine: str, added: int) -> dict[str, object]:
    """Add hours to those that a machine has run."""
    _locked(db, machine)
    if added <= 0:
        raise ValueError(f"hours must be above zero, not {added}.")
    db.execute("UPDATE machines SET hours = hours + ? WHERE machine = ?", (added, machine))
    return {"logged": added}


def wake_crew(db: sqlite3.Connection, crew: str) -> dict[str, object]:
    """End a crew's rest."""
    if not _resting(db, crew):
        raise ValueError(f"the crew {crew} is not resting.")
    db.execute("UPDATE crews SET resting = 0 WHERE crew = ?", (crew,))
    return {"woken": crew}


def rest_crew(db: sqlite3.Connection, crew: str) -> dict[str, object]:
    """Let a crew rest."""
    if _resting(db, crew):
        raise ValueError(f"the crew {crew} is resting already.")
    db.execute("UPDATE crews SET resting = 1 WHERE crew = ?", (crew,))
    return {"resting": crew}


def spares_for(db: sqlite3.Connection, model: str) -> dict[str, object]:
    """The spares that fit a model and how many there are."""
    rows = db.execute("SELECT spare, quantity FROM spares WHERE model = ?", (model,)).fetchall()
    return {"spares": [{"spare": spare, "in_stock": quantity} for spare, quantity in rows]}


def fit_spare(db: sqlite3.Connection, machine: str, spare: str) -> dict[str, object]:
    """Fit a spare that is in stock and not quarantined; a machine takes each spare once."""
    _locked(db, machine)
    row = db.execute("SELECT quantity, quarantined FROM spares WHERE spare = ?", (spare,)).fetchone()
    if row is None or row[0] == 0:
        raise ValueError(f"{spare} is not in stock.")
    if row[1]:
        raise ValueError(f"{spare} is quarantined.")
    if db.execute("SELECT 1 FROM fittings WHERE machine = ? AND spare = ?", (machine, spare)).fetchone():
        raise ValueError(f"{machine} has {spare} already.")
    db.execute("UPDATE spares SET quantity = quantity - 1 WHERE spare = ?", (spare,))
    db.execute("INSERT INTO fittings (machine, spare) VALUES (?, ?)", (machine, spare))
    return {"fitted": spare}


def stock_spare(db: sqlite3.Connection, spare: str, quantity: int) -> dict[str, object]:
    """Add pieces of a spare to the stock."""
    done = db.execute("UPDATE spares SET quantity = quantity + ? WHERE spare = ?", (quantity, spare))
    if quantity <= 0 or done.rowcount == 0:
        raise ValueError(f"{quantity} pieces of {spare} cannot be stocked.")
    return {"stocked": quantity}


def quarantine(db: sqlite3.Connection, spare: str) -> dict[str, object]:
    """Put a spare into quarantine."""
    if db.execute("UPDATE spares SET quarantined = 1 WHERE spare = ? AND quarantined = 0", (spare,)).rowcount == 0:
        raise ValueError(f"{spare} cannot be quarantined.")
    return {"quarantined": spare}


def clear_spare(db: sqlite3.Connection, spare: str) -> dict[str, object]:
    """Clear a spare that is in quarantine."""
    if db.execute("UPDATE spares SET quarantined = 0 WHERE spare = ? AND quarantined = 1", (spare,)).rowcount == 0:
        raise ValueError(f"{spare} is not in quarantine.")
    return {"cleared": spare}


def faults_of(db: sqlite3.Connection, machine: str) -> dict[str, object]:
    """The open faults of a machine and how severe they are."""
    rows = db.execute("SELECT fault, severity FROM faults WHERE machine = ? AND state = 'open'", (machine,)).fetchall()
    return {"faults": [{"fault": fault, "severity": severity} for fault, severity in rows]}


def machine_of(db: sqlite3.Connection, fault: str) -> dict[str, object]:
    """The machine that has a fault."""
    row = db.execute("SELECT machine FROM faults WHERE fault = ?", (fault,)).fetchone()
    if row is None:
        raise ValueError(f"there is no fault {fault}.")
    return {"machine": row[0]}


def resolve_fault(db: sqlite3.Connection, fault: str) -> dict[str, object]:
    """Resolve an open fault."""
    if db.execute("UPDATE faults SET state = 'resolved' WHERE fault = ? AND state = 'open'", (fault,)).rowcount == 0:
        raise ValueError(f"{fault} is not open.")
    return {"resolved": fault}


def resume_fault(db: sqlite3.Connection, fault: str) -> dict[str, object]:
    """Open a fault again that was put off."""
    if db.execute("UPDATE faults SET state = 'open' WHERE fault = ? AND state = 'deferred'", (fault,)).rowcount == 0:
        raise ValueError(f"{fault} was not put off.")
    return {"open": fault}


def defer_fault(db: sqlite3.Connection, fault: str) -> dict[str, object]:
    """Put off an open fault."""
    if db.execute("UPDATE faults SET state = 'deferred' WHERE fault = ? AND state = 'open'", (fault,)).rowcount == 0:
        raise ValueError(f"{fault} is not open.")
    return {"deferred": fault}
