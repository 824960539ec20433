"""Tools of a field service: jobs at sites, technicians and their days, parts."""

import sqlite3


def _status(db: sqlite3.Connection, job: str) -> str:
    row = db.execute("SELECT status FROM jobs WHERE job = ?", (job,)).fetchone()
    if row is None:
        raise ValueError(f"there is no job {job}.")
    return str(row[0])


def _certified(db: sqlite3.Connection, technician: str) -> bool:
    row = db.execute("SELECT certified FROM technicians WHERE technician = ?", (technician,)).fetchone()
    if row is None:
        raise ValueError(f"there is no technician {technician}.")
    return bool(row[0])


def _suspended(db: sqlite3.Connection, site: str) -> bool:
    row = db.execute("SELECT suspended FROM sites WHERE site = ?", (site,)).fetchone()
    if row is None:
        raise ValueError(f"there is no site {site}.")
    return bool(row[0])


def jobs_at(db: sqlite3.Connection, site: str) -> dict[str, object]:
    """The open jobs of a site and how urgent they are."""
    rows = db.execute("SELECT job, urgency FROM jobs WHERE site = ? AND status = 'open'", (site,)).fetchall()
    return {"jobs": [{"job": job, "urgency": urgency} for job, urgency in rows]}


def trade_of(db: sqlite3.Connection, job: str) -> dict[str, object]:
    """The trade that a job needs."""
    row = db.execute("SELECT trade FROM jobs WHERE job = ?", (job,)).fetchone()
    if row is None:
        raise ValueError(f"there is no job {job}.")
    return {"trade": row[0]}


def site_of(db: sqlite3.Connection, job: str) -> dict[str, object]:
    """The site of a job."""
    row = db.execute("SELECT site FROM jobs WHERE job = ?", (job,)).fetchone()
    if row is None:
        raise ValueError(f"there is no job {job}.")
    return {"site": row[0]}


def technicians_of(db: sqlite3.Connection, trade: str) -> dict[str, object]:
    """The technicians of a trade and what an hour of theirs costs."""
    rows = db.execute("SELECT technician, rate FROM technicians WHERE trade = ?", (trade,)).fetchall()
    return {"technicians": [{"technician": name, "rate": rate} for name, rate in rows]}


def days_of(db: sqlite3.Connection, technician: str) -> dict[str, object]:
    """The days on which a technician has a job, and which."""
    rows = db.execute("SELECT day, job FROM assignments WHERE technician = ?", (technician,)).fetchall()
    return {"days": [{"job": job, "taken": day} for day, job in rows]}


def assign(db: sqlite3.Connection, job: str, technician: str, day: str) -> dict[str, object]:
    """Give an open job to a certified technician for a day that is free."""
    if _status(db, job) != "open":
        raise ValueError(f"{job} is not open.")
    if not _certified(db, technician):
        raise ValueError(f"the certificate of {technician} has run out.")
    if db.execute("SELECT 1 FROM assignments WHERE job = ?", (job,)).fetchone():
        raise ValueError(f"{job} is assigned already.")
    if db.execute("SELECT 1 FROM assignments WHERE technician = ? AND day = ?", (technician, day)).fetchone():
        raise ValueError(f"{technician} has another job on {day}.")
    db.execute("INSERT INTO assignments (job, technician, day) VALUES (?, ?, ?)", (job, technician, day))
    return {"assigned": job}


def unassign(db: sqlite3.Connection, job: str) -> dict[str, object]:
    """Take a job away from its technician."""
    if db.execute("DELETE FROM assignments WHERE job = ?", (job,)).rowcount == 0:
        raise ValueError(f"{job} is not assigned.")
    return {"unassigned": job}


def close_job(db: sqlite3.Connection, job: str) -> dict[str, object]:
    """Close an open job."""
    if _status(db, job) != "open":
        raise ValueError(f"{job} is not open.")
    db.execute("UPDATE jobs SET status = 'closed' WHERE job = ?", (job,))
    return {"closed": job}


def reopen_job(db: sqlite3.Connection, job: str) -> dict[str, object]:
    """Open a closed job again."""
    if _status(db, job) != "closed":
        raise ValueError(f"{job} is not closed.")
    db.execute("UPDATE jobs SET status = 'open' WHERE job = ?", (job,))
    return {"open": job}


def renew_certificate(db: sqlite3.Connection, technician: str) -> dict[str, object]:
    """Renew a certificate that has run out."""
    if _certified(db, technician):
        raise ValueError(f"the certificate of {technician} is valid.")
    db.execute("UPDATE technicians SET certified = 1 WHERE technician = ?", (technician,))
    return {"renewed": technician}


def set_rate(db: sqlite3.Connection, technician: str, rate: int) -> dict[str, object]:
    """Set what an hour of a technician costs."""
    _certified(db, technician)
    db.execute("UPDATE technicians SET rate = ? WHERE technician = ?", (rate, technician))
    return {"set": rate}


def model_at(db: sqlite3.Connection, site: str) -> dict[str, object]:
    """The model of the plant at a site."""
    row = db.execute("SELECT model FROM sites WHERE site = ?", (site,)).fetchone()
    if row is None:
        raise ValueError(f"there is no site {site}.")
    return {"model": row[0]}


def parts_for(db: sqlite3.Connection, model: str) -> dict[str, object]:
    """The parts of a model with their prices."""
    rows = db.execute("SELECT part, price FROM parts WHERE model = ?", (model,)).fetchall()
    return {"parts": [{"part": part, "price": price} for part, price in rows]}


def order_part(db: sqlite3.Connection, site: str, part: str, pieces: int) -> dict[str, object]:
    """Order a part for a site that is not suspended; a part has one order a site."""
    if _suspended(db, site):
        raise ValueError(f"the contract of {site} is suspended.")
    row = db.execute("SELECT blocked FROM parts WHERE part = ?", (part,)).fetchone()
    if row is None or row[0]:
        raise ValueError(f"{part} cannot be ordered now.")
    if db.execute("SELECT 1 FROM part_orders WHERE site = ? AND part = ?", (site, part)).fetchone():
        raise ValueError(f"{part} is on order for {site} already.")
    db.execute("INSERT INTO part_orders (site, part, pieces) VALUES (?, ?, ?)", (site, part, pieces))
    return {"ordered": pieces}


def cancel_part(db: sqlite3.Connection, site: str, part: str) -> dict[str, object]:
    """Cancel the order of a part for a site."""
    if db.execute("DELETE FROM part_orders WHERE site = ? AND part = ?", (site, part)).rowcount == 0:
        raise ValueError(f"{part} is not on order for {site}.")
    return {"cancelled": part}


def parts_ordered(db: sqlite3.Connection, site: str) -> dict[str, object]:
    """What is on order for a site."""
    rows = db.execute("SELECT part, pieces FROM part_orders WHERE site = ?", (site,)).fetchall()
    return {"orders": [{"part": part, "count": pieces} for part, pieces in rows]}


def suspend_site(db: sqlite3.Connection, site: str) -> dict[str, object]:
    """Suspend the contract of a site."""
    if _suspended(db, site):
        raise ValueError(f"the contract of {site} is suspended already.")
    db.execute("UPDATE sites SET suspended = 1 WHERE site = ?", (site,))
    return {"suspended": site}


def restore_site(db: sqlite3.Connection, site: str) -> dict[str, object]:
    """End the suspension of a site's contract."""
    if not _suspended(db, site):
        raise ValueError(f"the contract of {site} is not suspended.")
    db.execute("UPDATE sites SET suspended = 0 WHERE site = ?", (site,))
    return {"restored": site}


def unblock_part(db: sqlite3.Connection, part: str) -> dict[str, object]:
    """Let a part be ordered again."""
    if db.execute("UPDATE parts SET blocked = 0 WHERE part = ? AND blocked = 1", (part,)).rowcount == 0:
        raise ValueError(f"{part} is not blocked.")
    return {"unblocked": part}
