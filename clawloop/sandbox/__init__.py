"""Where commands run: boxes without network, with limits, that die whole."""
