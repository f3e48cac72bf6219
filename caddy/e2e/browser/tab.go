package browser

import (
	"fmt"
	"testing"
)

// Tab is a page that stays open.
type Tab struct {
	browser *Browser
	id      string
}

// Shown is what an open page shows.
type Shown struct {
	// Text is that of the element that was asked for.
	Text string
	// Loads is how often the page was loaded.
	Loads    int
	Messages []string
	// Asked are the seconds of a scripted page after which it asked the server, and Answers the statuses of the answers.
	Asked, Answers []int
}

// CloseAll closes all that were opened.
func (b *Browser) CloseAll(t testing.TB) {
	t.Helper()
	b.Do(t, "end", nil, new(any))
}

// Open opens a page that stays open until all are closed. For a scripted one time goes by in Pass alone.
func (b *Browser) Open(t testing.TB, url string, scripted bool) *Tab {
	t.Helper()
	b.tabs++
	tab := &Tab{b, fmt.Sprint(b.tabs)}
	tab.do(t, "begin", map[string]any{"url": url, "width": 390, "scripted": scripted}, nil)
	return tab
}

// Read reads an element of the page.
func (tab *Tab) Read(t testing.TB, selector string) (shown Shown) {
	t.Helper()
	tab.do(t, "read", map[string]any{"selector": selector}, &shown)
	return shown
}

// Await waits until an element of the page says something.
func (tab *Tab) Await(t testing.TB, selector, text string) {
	t.Helper()
	tab.do(t, "awaits", map[string]any{"selector": selector, "text": text}, nil)
}

// Pass lets seconds go by, a few at a time, and returns after how many of them the page asked the server.
func (tab *Tab) Pass(t testing.TB, seconds, step int) (asked []int) {
	t.Helper()
	tab.do(t, "pass", map[string]any{"seconds": seconds, "step": step}, &asked)
	return asked
}

// Turn hides the page or shows it again.
func (tab *Tab) Turn(t testing.TB, hidden bool) {
	t.Helper()
	tab.do(t, "turn", map[string]any{"hidden": hidden}, nil)
}

// Return loads the page again, as a browser does with a tab that it has thrown away.
func (tab *Tab) Return(t testing.TB) {
	t.Helper()
	tab.do(t, "come", nil, nil)
}

// Go opens another page in the tab.
func (tab *Tab) Go(t testing.TB, url string) {
	t.Helper()
	tab.do(t, "go", map[string]any{"url": url}, nil)
}

// Back goes back to the page before.
func (tab *Tab) Back(t testing.TB) {
	t.Helper()
	tab.do(t, "back", nil, nil)
}

// Leads are what the links of the page's content lead to, as far as a person can see them.
func (tab *Tab) Leads(t testing.TB) (addresses []string) {
	t.Helper()
	tab.do(t, "leads", nil, &addresses)
	return addresses
}

// Act does something with an element: "click" or "focus".
func (tab *Tab) Act(t testing.TB, selector, does string) {
	t.Helper()
	tab.do(t, "act", map[string]any{"selector": selector, "does": does}, nil)
}

// Picture writes a picture of the page where pictures are wanted.
func (tab *Tab) Picture(t testing.TB, name string) {
	t.Helper()
	if path := Screenshot(name); path != "" {
		tab.do(t, "picture", map[string]any{"path": path}, nil)
	}
}

func (tab *Tab) do(t testing.TB, command string, arguments map[string]any, result any) {
	t.Helper()
	if arguments == nil {
		arguments = map[string]any{}
	}
	if result == nil {
		result = new(any)
	}
	arguments["id"] = tab.id
	tab.browser.Do(t, command, arguments, result)
}
