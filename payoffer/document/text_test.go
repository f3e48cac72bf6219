package document

import (
	"encoding/json"
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// hostile holds what has a meaning in JSON, XML, HTML, YAML, Markdown or
// humans.txt.
const hostile = "A \"q\" 'a' <b>&amp; */ /* X */ # [l](javascript:1) *e* _u_ `c` : | ~s~ ![i](//e) {{t}} \\ é – %s"

func hostileOffer(t *testing.T) *offer.Offer {
	with := terms()
	with.Name, with.Operator, with.Description = "N "+hostile, "O "+hostile, "D "+hostile
	return fullOffer(t, with)
}

func TestOperatorTextSurvivesInJSON(t *testing.T) {
	o := hostileOffer(t)
	card, info, api := decode(t, AgentCard(o)), decode(t, NodeInfo(o)), decode(t, api(o))
	require.Equal(t, "N "+hostile, card["name"])
	require.Equal(t, "D "+hostile, card["description"])
	require.Equal(t, "O "+hostile, at(t, card, "provider", "organization"))
	require.Equal(t, "N "+hostile, at(t, info, "metadata", "nodeName"))
	require.Equal(t, "N "+hostile, at(t, api, "info", "title"))
	require.Equal(t, "D "+hostile, decode(t, Invoice(o, offer.Live{}))["description"])
	require.Equal(t, "N "+hostile, decode(t, X402(o, []string{}))["name"])
}

func TestDocumentsWellFormedWithHostileText(t *testing.T) {
	for path, d := range documents(t, hostileOffer(t)) {
		switch {
		case strings.Contains(d.Type, "json"):
			require.True(t, json.Valid(d.Body), path)
		case strings.Contains(d.Type, "xml"):
			require.NoError(t, xml.Unmarshal(d.Body, new(struct{})), path)
		}
	}
}

func TestHumansSectionsCannotBeForged(t *testing.T) {
	body := string(Humans(hostileOffer(t)).Body)
	require.Equal(t, []string{"/* TEAM */", "/* PAY */", "/* SITE */"},
		regexp.MustCompile(`/\*.*?\*/`).FindAllString(body, -1))
}

func TestHumansNamesOperatorAndRails(t *testing.T) {
	with := terms()
	with.Contact = "help@example.org"
	o := fullOffer(t, with)
	body := string(Humans(o).Body)
	for _, want := range []string{
		"Operator: Example Org\n", "Contact: help@example.org\n", "Pay: " + o.Card.URL + "\n", "Last update: 2026/11/21\n",
		": https://pay.example.org/v1/pay\n", ": https://pay.example.org/v1/pay/transfer\n",
	} {
		require.Contains(t, body, want)
	}
	for _, r := range o.Rails {
		require.Contains(t, body, ": https://pay.example.org/v1/pay/"+r.Name()+".uri\n")
	}
	require.NotContains(t, string(Humans(cardOffer(t, terms())).Body), "Contact:")
}

// inlineMarkup finds unescaped characters that start markup inside a line of
// CommonMark.
var inlineMarkup = regexp.MustCompile("(?:^|[^\\\\])(?:\\\\\\\\)*([*_\\[\\]<>&#|~!`])")

func TestMarkdownEscapesMarkup(t *testing.T) {
	escaped := markdown(hostile)
	require.Empty(t, inlineMarkup.FindAllString(escaped, -1), "%s", escaped)
	// Taking the backslashes of CommonMark section 2.4 away gives the text back.
	back := regexp.MustCompile("\\\\([!-/:-@\\[-`{-~])").ReplaceAllString(escaped, "$1")
	require.Equal(t, hostile, back)
}

func TestOperatorTextIsEscapedInMarkdown(t *testing.T) {
	o := hostileOffer(t)
	skill, llms := string(Skill(o).Body), string(LLMs(o).Body)
	require.Contains(t, skill, markdown(o.Name))
	require.Contains(t, skill, markdown(o.Operator))
	require.Contains(t, skill, markdown(o.Description))
	require.Contains(t, llms, "# "+markdown(o.Name)+"\n")
	require.Contains(t, llms, markdown(o.Operator)+". "+markdown(o.Description)+"\n")
	// OpenAPI reads descriptions as CommonMark, and titles as plain text.
	require.Equal(t, markdown(o.Description), at(t, decode(t, api(o)), "info", "description"))
}

func TestSkillFrontmatter(t *testing.T) {
	for name, o := range map[string]*offer.Offer{"plain": fullOffer(t, terms()), "hostile": hostileOffer(t)} {
		t.Run(name, func(t *testing.T) {
			body := string(Skill(o).Body)
			require.True(t, strings.HasPrefix(body, "---\n"))
			front, rest, found := strings.Cut(body[4:], "\n---\n\n")
			require.True(t, found)
			lines := strings.Split(front, "\n")
			require.Len(t, lines, 4)

			folder := strings.Split(offer.PathSkill, "/")
			require.Equal(t, "name: "+folder[len(folder)-2], lines[0])
			quoted, found := strings.CutPrefix(lines[1], "description: ")
			require.True(t, found)
			var description string // a YAML double-quoted scalar of printable text is JSON
			require.NoError(t, json.Unmarshal([]byte(quoted), &description))
			require.LessOrEqual(t, len(description), 1024)
			require.NotContains(t, description, "<")
			require.NotContains(t, description, ">")
			require.Equal(t, []string{"metadata:", `  version: "0.2.0"`}, lines[2:])

			require.Equal(t, 1, len(regexp.MustCompile(`(?m)^# `).FindAllString(rest, -1)))
			require.Less(t, strings.Count(rest, "\n"), 500)
			require.NotContains(t, rest, "<b>")
		})
	}
}

func TestSkillExplainsEachRail(t *testing.T) {
	o := fullOffer(t, terms())
	body := string(Skill(o).Body)
	for _, want := range []string{
		"A human must have authorised this spending", "is a quote, not a payment", "raise the client's spending cap to 42 USD",
		"<" + o.Card.URL + ">", "<https://shop.example/tip-jar>", "<https://pay.example.org/v1/sponsor>", "`first_42_sponsor`",
		"`" + payoffertest.PayTo + "`", "`42000000` atomic units", "`mailto:bank%26co%2B42@example.org?subject=",
		"`ethereum:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913@8453/transfer?address=" + payoffertest.PayTo + "&uint256=42000000`",
	} {
		require.Contains(t, body, want)
	}
	for _, r := range o.Rails {
		require.Contains(t, body, "<https://pay.example.org/v1/pay/"+r.Name()+".uri>")
		require.Contains(t, body, "<https://pay.example.org/v1/pay/"+r.Name()+".png>")
	}
}

// An agent that takes a 503 for a refusal pays twice.
func TestSkillExplainsEachStatus(t *testing.T) {
	full := strings.Join(strings.Fields(string(Skill(fullOffer(t, terms())).Body)), " ")
	for _, want := range []string{
		"- 503: not known yet.", "send the identical payment again, same signature and nonce", "Never sign a new payment",
		"- 200: paid.", "- 400: ", "- 402 to a request with a payment: it was refused", "- 409: ", "- 429: too many attempts.",
		"PAYMENT-SIGNATURE", "X-PAYMENT", "A 503 from <https://pay.example.org/v1/pay/btc.uri> means that there is no amount in bitcoin now. Its \"detail\" has the reason.",
	} {
		require.Contains(t, full, want)
	}
	require.NotContains(t, string(Skill(cardOffer(t, terms())).Body), "503", "the card checkout has no such answer")
}

func TestLLMsFormat(t *testing.T) {
	entry := regexp.MustCompile(`^- \[[^\[\]]+\]\((https://pay\.example\.org/[^()\s]+)\): .+$`)
	for name, o := range map[string]*offer.Offer{"plain": fullOffer(t, terms()), "hostile": hostileOffer(t)} {
		t.Run(name, func(t *testing.T) {
			var headings, summaries, entries int
			for i, line := range strings.Split(strings.TrimSpace(string(LLMs(o).Body)), "\n") {
				switch {
				case strings.HasPrefix(line, "# "):
					require.Zero(t, i, "the title is the first line")
					headings++
				case strings.HasPrefix(line, "> "):
					summaries++
				case strings.HasPrefix(line, "- ") && strings.Contains(specifications(o), line+"\n"):
					entries++
				case strings.HasPrefix(line, "- "):
					require.Regexp(t, entry, line)
					entries++
				}
			}
			require.Equal(t, 1, headings)
			require.Equal(t, 1, summaries)
			require.Greater(t, entries, len(o.Rails))
		})
	}
}
