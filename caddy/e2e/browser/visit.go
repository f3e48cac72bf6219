package browser

import "testing"

// Visit is a page that all is looked at that must hold of every page.
type Visit struct {
	// Name is that of its pictures, and Pictures the folder that they are written to, empty for none.
	Name     string `json:"name"`
	Pictures string `json:"pictures"`
	URL      string `json:"url"`
	// Method, Headers and Body are those by which the page is asked for, where that is not GET alone.
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Widths are those of the windows that it is looked at in: 390 and 1280 pixels, or one of them.
	Widths []int `json:"widths"`
	// NoScript looks at it without JavaScript, too.
	NoScript bool `json:"noScript"`
	// Audit lets axe-core look for violations, which takes longer than all else.
	Audit bool `json:"audit"`
}

// Visited is what a page is like.
type Visited struct {
	// Looks are those in the widths, in light and dark colors, Zoomed those at 200 and 400 % of 1280 pixels, and Plain those
	// without JavaScript: dark in the wide one, or both where all widths are looked at.
	Looks, Zoomed, Plain []Look
	// Keyboard is what the key Tab leads to, at 1280 pixels.
	Keyboard struct {
		// Controls is how much there is to reach, Unreached what was not, and Unseen what shows no focus.
		Controls          int
		Unreached, Unseen []string
	}
	// Moving are the elements that move for who asks for less motion.
	Moving []string
	// Hidden are the elements that cannot be seen in forced colors.
	Hidden []string
	// Loads is how often the page was loaded, and Messages and Foreign are as in Page, of all loads.
	Loads             int
	Messages, Foreign []string
}

// Look is a page in a window.
type Look struct {
	Width int
	Dark  bool
	Page
}

// Visits visits pages.
func (b *Browser) Visits(t testing.TB, all ...Visit) (visited []Visited) {
	t.Helper()
	b.Do(t, "visits", all, &visited)
	return visited
}
