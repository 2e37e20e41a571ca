package browser

import (
	_ "github.com/chromedp/chromedp" // drives pages, see package page
	_ "github.com/coder/websocket"   // carries the protocol through the guest
)
