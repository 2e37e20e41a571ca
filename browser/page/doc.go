// Package page opens sessions in a browser: one clean profile with one page
// each, driven by the DevTools protocol through the container's dialer.
//
// Pages are untrusted, and so is what the browser reports of them. No script
// runs in a page's own JavaScript world: pages are read, and elements are
// found, from an isolated world, by functions of the browser that the page
// cannot replace. Every document that a page or one of its frames loads is
// paused and judged by the URL policy before its request is sent, each hop of
// a redirect included; windows that it opens are closed, dialogs are answered,
// permission requests and downloads are refused.
//
// Of chromedp this uses the layer that carries commands and answers. Its
// targets would keep every document of a page in the memory of this process,
// which a hostile page could fill, and would run their queries in the page's
// own JavaScript world.
package page
