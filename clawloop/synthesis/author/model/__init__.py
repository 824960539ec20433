"""The model as author: what it is asked, how its reply is read, and how it mends what failed."""
