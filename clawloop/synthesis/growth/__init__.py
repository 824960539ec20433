"""How a card is made harder."""
