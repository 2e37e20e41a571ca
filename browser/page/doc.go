// Package page opens sessions in a browser: one clean profile with one page
// each, driven by the DevTools protocol through the container's dialer.
//
// Pages are untrusted, and so is what the browser says of them. No script is
// put into the world of a page: it is read, and its elements are found, from a
// world of our own, by functions of the browser that the page cannot replace.
// Every document that a page or one of its frames loads is stopped and judged
// by package visit before anything is sent, each hop of a redirect included;
// windows that it opens are closed, dialogs are answered, questions for
// permissions and downloads are refused.
//
// Of chromedp this uses the layer that carries commands and answers. Its
// targets would follow every document of a page in the memory of this process,
// which a hostile page could fill, and would ask their questions among the
// scripts of the page.
package page
