"""The library author: generators that the project ships, and the domains they speak of."""
