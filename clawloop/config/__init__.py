"""The config: its typed spine, where its files lie, and what is said when it is wrong."""
