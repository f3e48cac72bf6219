package command

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown limits the content that is printed, in bytes.
const maxShown = 64 << 10

// checkWritable returns why a file cannot be written. It does not change the file.
func checkWritable(name string) error {
	if name == "" {
		return nil
	}
	_, missing := os.Stat(name)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) // as curl creates it
	if err == nil {
		err = file.Close()
		if missing != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// deliver writes the content of a paid purchase to --output, or prints it if it is text.
func (p *payer) deliver() error {
	content, err := p.purchase.Content()
	output := p.fl.String("output")
	if err == nil && output != "" {
		err = os.WriteFile(output, content, 0o666)
	}
	switch {
	case err != nil:
		return fmt.Errorf("paid, but the content is not delivered: %w; run the same command again, without --new, with another --output", err)
	case output != "":
		p.printf("The content (%d bytes) is in %s.", len(content), output)
	case p.purchase.ReceiptURL != "" || p.fl.Bool("json") || len(content) == 0:
	case !isText(p.purchase.ContentType, content) && p.fl.Bool("demo"):
		p.printf("The content (%d bytes) is not shown. Write --output <file> to get it, which pays the demo again.", len(content))
	case !isText(p.purchase.ContentType, content):
		p.printf("The content (%d bytes) is not shown. Write --output <file> to get it.", len(content))
	default:
		fmt.Fprintln(p.out, strings.Map(func(r rune) rune {
			if r != '\r' && (unicode.IsPrint(r) || unicode.IsSpace(r)) {
				return r
			}
			return -1
		}, string(content)))
	}
	return nil
}

var textType = regexp.MustCompile(`(?i)^(text/|application/([\w.-]+\+)?(json|xml|yaml)\b)`)

// isText reports whether content is short text without terminal escapes.
func isText(contentType string, content []byte) bool {
	return len(content) <= maxShown && textType.MatchString(contentType) && utf8.Valid(content) &&
		!strings.ContainsFunc(string(content), func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) })
}
