// Package browser looks at the pages as people do, in Chromium.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// View is how a person looks at a page.
type View struct {
	// URL is the page's address.
	URL string `json:"url"`
	// Width is that of the window in pixels.
	Width int `json:"width"`
	// Dark asks for dark colors.
	Dark bool `json:"dark"`
	// NoScript turns JavaScript off.
	NoScript bool `json:"noScript"`
	// Print shows the page as it is printed.
	Print bool `json:"print"`
	// Audit lets axe-core look for violations, which takes a second.
	Audit bool `json:"audit"`
	// Screenshot is the file to write a picture of the whole page to, empty for none.
	Screenshot string `json:"screenshot"`
}

// Page is what a browser shows.
type Page struct {
	// Messages are warnings and errors of the console, those of the content security policy among them.
	Messages []string `json:"messages"`
	// Foreign are the addresses of other origins that the page asked for on its own; nothing went out.
	Foreign []string `json:"foreign"`
	// Overflow is by how many pixels the page is wider than the window.
	Overflow int `json:"overflow"`
	// TallestRow is how high the highest row of a payment is, in pixels.
	TallestRow int `json:"tallestRow"`
	// Texts is the number of texts looked at, Faint those with a contrast below 4.5 to 1, and Cut those that something cuts or
	// that stand on others.
	Texts int      `json:"texts"`
	Faint []string `json:"faint"`
	Cut   []string `json:"cut"`
	// Broken are the words that break across lines although a line of the window has room for them.
	Broken []string `json:"broken"`
	// Violations are those of accessibility rules that axe-core finds in an audit.
	Violations []string `json:"violations"`
	Images     []Image  `json:"images"`
	Links      []Link   `json:"links"`
	// Buttons are the labels of the visible buttons.
	Buttons []string `json:"buttons"`
	// Text is the visible text.
	Text string `json:"text"`
}

// Image is an image of a page.
type Image struct {
	Alt string `json:"alt"`
	// Loaded says that it could be drawn.
	Loaded bool `json:"loaded"`
	// Beside is the text of the row or the section that it stands in.
	Beside string `json:"beside"`
}

// Link is a visible link of a page.
type Link struct {
	URL  string `json:"url"`
	Text string `json:"text"`
	// Usable says that a click would reach it.
	Usable bool `json:"usable"`
}

// Waiting is how a person waits on the page that opens the checkout by itself.
type Waiting struct {
	URL string `json:"url"`
	// Does is what the person does meanwhile: "nothing", "button", "key", "leave", "return" from the checkout, and more.
	Does string `json:"does"`
	// Paid opens this page before, which the browser shows after a payment.
	Paid string `json:"paid"`
	// ReducedMotion says that the person asks for less of it.
	ReducedMotion bool `json:"reducedMotion"`
}

// Countdown is what became of the page that opens the checkout by itself.
type Countdown struct {
	// Before and After are the visible texts at the start and three seconds later.
	Before string `json:"before"`
	After  string `json:"after"`
	// URL is where the browser is after a minute, and Text the visible text there.
	URL  string `json:"url"`
	Text string `json:"text"`
	// Height is that of the page then, in pixels.
	Height int `json:"height"`
	// Messages are warnings and errors of the console.
	Messages []string `json:"messages"`
}

// Browser is a running Chromium.
type Browser struct {
	in  io.Writer
	out *bufio.Reader
	// tabs counts those that were opened.
	tabs int
}

// Start runs Chromium until the test ends.
func Start(t testing.TB) *Browser {
	t.Helper()
	return Run(t, "caddy/e2e/browser/browser.mjs")
}

// Run runs a script that drives Chromium, given relative to the root of the repository, until the test ends. Should this
// process die before, the script's standard input closes, on which it leaves.
func Run(t testing.TB, script string) *Browser {
	t.Helper()
	chromium := lab.RequireBrowser(t)
	lab.AwaitBrowser(t)
	command := exec.CommandContext(t.Context(), "node", lab.Path(t, script))
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "CHROMIUM=" + chromium}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Cancel = in.Close // the script closes Chromium before it leaves
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the browser's script wrote:\n%s", &stderr)
		}
	})
	return &Browser{in: in, out: bufio.NewReader(out)}
}

// Look opens a page.
func (b *Browser) Look(t testing.TB, view View) Page {
	t.Helper()
	return b.Looks(t, view)[0]
}

// Looks opens pages, some of them beside each other, which takes less time than one after the other.
func (b *Browser) Looks(t testing.TB, views ...View) (pages []Page) {
	t.Helper()
	b.Do(t, "looks", views, &pages)
	require.Len(t, pages, len(views))
	return pages
}

// Waits opens the page that opens the checkout by itself, has a person do something, and then a minute pass, of which only the
// page's clock knows.
func (b *Browser) Waits(t testing.TB, all ...Waiting) (ends []Countdown) {
	t.Helper()
	b.Do(t, "waits", all, &ends)
	require.Len(t, ends, len(all))
	return ends
}

// Do sends a command, a line of JSON, and reads its result.
func (b *Browser) Do(t testing.TB, command string, arguments, result any) {
	t.Helper()
	require.NoError(t, json.NewEncoder(b.in).Encode(map[string]any{"command": command, "arguments": arguments}))
	line, err := b.out.ReadBytes('\n')
	require.NoError(t, err, "the browser's script ended")
	var answer struct {
		Error  string
		Result json.RawMessage
	}
	require.NoError(t, json.Unmarshal(line, &answer), "%s", line)
	require.Empty(t, answer.Error)
	require.NoError(t, json.Unmarshal(answer.Result, result), "%s", line)
}

// Screenshot is the file for a picture: in the folder that PAY_OFFER_SCREENSHOTS names, or empty.
func Screenshot(name string) string {
	folder := os.Getenv("PAY_OFFER_SCREENSHOTS")
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, name+".png")
}
