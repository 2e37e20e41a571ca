package running
