"""`clawloop tasks`: a person's view of the tasks of a run, and of folders of tasks."""
