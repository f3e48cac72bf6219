// Package handbook reads the documentation for people, the README and the pages
// below payoffer/docs, so that tests can hold every block of code, link and
// command in it to what the code does.
package handbook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// index is the first page of the documentation, in its folder.
const index = "payoffer/docs/README.md"

// outside are the pages that are found where a hosting site looks for them.
var outside = []string{"README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", "CHANGELOG.md"}

// A Page is one page of Markdown.
type Page struct {
	// Name is the file's, relative to the root of the repository, with slashes.
	Name, Text string
	Blocks     []Block
	// Prose is the text without its fenced blocks.
	Prose string
}

// A Block is a fenced block of code.
type Block struct {
	// Line is that of the fence which opens it, from 1 on.
	Line           int
	Language, Text string
}

// A Command is what stands behind the prompt of a console, and what the console
// shows after it.
type Command struct{ Text, Output string }

// Read returns the pages outside of the folder, the index of the documentation, and its
// pages in the order in which the index names them. A page that it does not name is an
// error: nobody would find it.
func Read(root string) ([]Page, error) {
	var pages []Page
	add := func(name string) error {
		if slices.ContainsFunc(pages, func(p Page) bool { return p.Name == name }) {
			return nil
		}
		page, err := read(root, name)
		pages = append(pages, page)
		return err
	}
	for _, name := range append(outside, index) {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	for _, link := range pages[len(pages)-1].Links() {
		name, _, _ := strings.Cut(link, "#")
		if strings.HasPrefix(name, path.Dir(index)+"/") && path.Ext(name) == ".md" {
			if err := add(name); err != nil {
				return nil, err
			}
		}
	}
	return pages, filepath.WalkDir(filepath.Join(root, filepath.FromSlash(path.Dir(index))), func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, file)
		if name = filepath.ToSlash(name); err == nil && !slices.ContainsFunc(pages, func(p Page) bool { return p.Name == name }) {
			err = fmt.Errorf("%s does not name %s", index, name)
		}
		return err
	})
}

func read(root, name string) (Page, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return Page{}, err
	}
	page := Page{Name: name, Text: string(text)}
	var prose, code strings.Builder
	var open *Block
	number := 0
	for line := range strings.Lines(page.Text) {
		number++
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &Block{Line: number, Language: strings.TrimSpace(language)}
			code.Reset()
		case fence:
			open.Text = code.String()
			page.Blocks, open = append(page.Blocks, *open), nil
		case open != nil:
			code.WriteString(line)
		default:
			prose.WriteString(line)
		}
	}
	if open != nil {
		return Page{}, fmt.Errorf("%s:%d: a block is not closed", name, open.Line)
	}
	page.Prose = prose.String()
	return page, nil
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	code    = regexp.MustCompile("`[^`\n]*`")
)

// Links are the targets of the page's links to files and headings of this
// repository, relative to its root.
func (p Page) Links() (targets []string) {
	for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(p.Prose, ""), -1) {
		target := found[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, isAnchor := strings.Cut(target, "#")
		if file == "" {
			file = p.Name
		} else {
			file = path.Join(path.Dir(p.Name), file)
		}
		if isAnchor {
			file += "#" + anchor
		}
		targets = append(targets, file)
	}
	return targets
}

// Anchors are what the page's headings are linked by, as hosting sites make it of
// their words.
func (p Page) Anchors() (anchors []string) {
	for _, found := range heading.FindAllStringSubmatch(p.Prose, -1) {
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, found[1]))
	}
	return anchors
}

// Commands are those of a console, which begins with one. A command goes on where
// its line ends in a backslash.
func (b Block) Commands() ([]Command, error) {
	var commands []Command
	goesOn := false
	for line := range strings.Lines(b.Text) {
		command, prompted := strings.CutPrefix(line, "$ ")
		switch {
		case prompted:
			commands = append(commands, Command{Text: command})
		case len(commands) == 0:
			return nil, errors.New("a console begins with a command: '$ ' and its text")
		case goesOn:
			commands[len(commands)-1].Text += line
		default:
			commands[len(commands)-1].Output += line
		}
		goesOn = (prompted || goesOn) && strings.HasSuffix(line, "\\\n")
	}
	return commands, nil
}
