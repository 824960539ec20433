CREATE TABLE patients (patient TEXT PRIMARY KEY, insurer TEXT NOT NULL, balance INTEGER NOT NULL CHECK (balance >= 0), consent INTEGER NOT NULL);
CREATE TABLE clinicians (clinician TEXT PRIMARY KEY, specialty TEXT NOT NULL, fee INTEGER NOT NULL, room TEXT NOT NULL);
CREATE TABLE slots (clinician TEXT NOT NULL REFERENCES clinicians, day TEXT NOT NULL, time TEXT NOT NULL, PRIMARY KEY (clinician, day, time));
CREATE TABLE visits (id INTEGER PRIMARY KEY, patient TEXT NOT NULL REFERENCES patients, clinician TEXT NOT NULL, day TEXT NOT NULL, time TEXT NOT NULL, UNIQUE (clinician, day, time));
CREATE TABLE referrals (patient TEXT PRIMARY KEY REFERENCES patients, specialty TEXT NOT NULL);
CREATE TABLE drugs (drug TEXT PRIMARY KEY, illness TEXT NOT NULL, price INTEGER NOT NULL, recalled INTEGER NOT NULL);
CREATE TABLE prescriptions (id INTEGER PRIMARY KEY, patient TEXT NOT NULL REFERENCES patients, drug TEXT NOT NULL REFERENCES drugs, doses INTEGER NOT NULL CHECK (doses > 0), UNIQUE (patient, drug));
