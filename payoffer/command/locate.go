package command

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

var (
	// adapting is the text of Caddy before the mistake of an option, and placed the place after it.
	adapting = regexp.MustCompile(`^adapting config using \w+: (?:(?:\S+:\d+: )?parsing caddyfile tokens for '\w+': )*`)
	placed   = regexp.MustCompile(`^(.*?), at (\S+:\d+)(?: import chain:? \[''\])?( import chain:? \S+)?(?:, at .*)?$`)
	// unrecognized is Caddy's error of a directive.
	unrecognized = regexp.MustCompile(`: unrecognized directive: \S+$`)
	// provisioning is the text of Caddy before the mistakes of a directive.
	provisioning = regexp.MustCompile(`(?s)^.*provision (http\.handlers\.)?(pay_offer|pay_offer_gate): `)
	// option is the name of an option before a mistake, such as usdc base facilitator[1] key_id.
	option    = regexp.MustCompile(`^([\w-]+(?:\[\d+\])?(?: [\w-]+(?:\[\d+\])?)*): `)
	listEntry = regexp.MustCompile(`^(.*)\[(\d+)\]$`)
)

// locate replaces Caddy's path through its modules in an error of a configuration by the line
// of each mistake, as far as the Caddyfile shows it.
func locate(err error, file string) error {
	text := adapting.ReplaceAllString(err.Error(), "")
	if parts := placed.FindStringSubmatch(text); parts != nil {
		return errors.New(parts[2] + ": " + parts[1] + parts[3])
	}
	if unrecognized.MatchString(text) {
		return errors.New(text + "; the directives are pay_offer, pay_offer_page and pay_offer_gate, and options belong inside their braces")
	}
	directive := provisioning.FindStringSubmatch(text)
	if strings.HasPrefix(text, "pay_offer_gate ") { // a gate without its offer, which only the app finds
		directive = []string{"", "http.handlers.", "pay_offer_gate"}
	} else if directive == nil {
		return errors.New(text)
	}
	written, _ := os.ReadFile(file)
	blocks, _ := caddyfile.Parse(file, written) // no lines if it is not a Caddyfile
	var lines []line
	for _, block := range blocks {
		if isGlobal := len(block.Keys) == 0; isGlobal == (directive[1] != "") {
			continue // the mistake is in a directive, or in the global option of the same name
		}
		for _, segment := range block.Segments {
			read, _ := readLines(segment)
			lines = append(lines, read...)
		}
	}
	mistakes := strings.Split(provisioning.ReplaceAllString(text, ""), "\n")
	for i, mistake := range mistakes {
		var path []string
		if name := option.FindStringSubmatch(mistake); name != nil {
			path = strings.Fields(name[1])
		}
		if found := find(lines, directive[2], path); len(found) > 0 && !strings.HasPrefix(mistake, " ") {
			mistakes[i] = strings.Join(found, " or ") + ": " + mistake
		}
	}
	return errors.New(strings.Join(mistakes, "\n"))
}

// line is one line of a Caddyfile: a directive or an option, with the lines of its block.
type line struct {
	place string // file:line
	words []string
	block []line
}

// readLines reads the lines of a block until it ends, and returns the tokens after it.
func readLines(tokens []caddyfile.Token) (lines []line, rest []caddyfile.Token) {
	last := -1
	for len(tokens) > 0 {
		token := tokens[0]
		tokens = tokens[1:]
		switch {
		case token.Text == "}" && !token.Quoted():
			return lines, tokens
		case token.Text == "{" && !token.Quoted() && len(lines) > 0:
			lines[len(lines)-1].block, tokens = readLines(tokens)
			last = -1
		case token.Line != last:
			lines = append(lines, line{place: token.File + ":" + strconv.Itoa(token.Line)})
			fallthrough
		default:
			lines[len(lines)-1].words = append(lines[len(lines)-1].words, token.Text)
			last = token.Line
		}
	}
	return lines, nil
}

// find returns the places of the directives of a name, each moved on to its option at path.
func find(lines []line, directive string, path []string) (places []string) {
	for _, l := range lines {
		if l.words[0] == directive {
			places = append(places, l.option(path))
		} else {
			places = append(places, find(l.block, directive, path)...)
		}
	}
	return places
}

// option returns the place of the option at path, or of the block around it if it is not written.
func (l line) option(path []string) string {
	if len(path) == 0 {
		return l.place
	}
	name, index, rest := path[0], -1, path[1:]
	if entry := listEntry.FindStringSubmatch(name); entry != nil {
		name = entry[1]
		index, _ = strconv.Atoi(entry[2])
	}
	var named []line
	for _, inner := range l.block {
		if inner.words[0] == name {
			named = append(named, inner)
		}
	}
	// The next word may be an argument, such as the network of usdc.
	hasNext := func(inner line) bool { return len(rest) > 0 && slices.Contains(inner.words[1:], rest[0]) }
	if len(named) == 0 {
		return l.place
	} else if index < 0 {
		index = max(slices.IndexFunc(named, hasNext), 0)
	}
	chosen := named[min(index, len(named)-1)]
	if hasNext(chosen) {
		rest = rest[1:]
	}
	return chosen.option(rest)
}
