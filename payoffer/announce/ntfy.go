package announce

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Ntfy is a topic of an ntfy server (https://docs.ntfy.sh/publish/).
type Ntfy struct {
	// URL is the topic's URL. It is a secret: it allows to read and write.
	URL string
	// Token is an access token, or empty.
	Token string
}

// topicURL is the server's URL and the topic (ntfy, server/server.go, topicRegex).
var topicURL = regexp.MustCompile(`^(https?://[^?#]+/)([-_A-Za-z0-9]{1,64})$`)

// ParseTopic splits the URL of a topic into the server's URL and the topic. The error does not repeat them.
func ParseTopic(s string) (server, topic string, err error) {
	match := topicURL.FindStringSubmatch(s)
	if match == nil {
		return "", "", errors.New("this is not the URL of a topic; use letters, digits, hyphens and underscores, such as https://ntfy.example.org/topic")
	}
	_, err = offer.ParseURL(s)
	return match[1], match[2], err
}

func (n Ntfy) receiver(c *Config) (receiver, error) {
	server, topic, err := ParseTopic(n.URL)
	if err != nil {
		return receiver{}, err
	}
	header := http.Header{"User-Agent": {"caddy-pay-offer"}}
	if n.Token != "" {
		header.Set("Authorization", "Bearer "+n.Token)
	}
	client := c.client()
	return receiver{"ntfy", n.URL, offer.Host(n.URL), func(ctx context.Context, e event) failure {
		link := ""
		if len(c.Offer.Gates) == 0 && e.kind != kindTest { // otherwise readers of the topic could open what was bought
			link = c.Page(e.transition)
		}
		tags, priority := e.tagsAndPriority()
		// A repeated message has the same sequence_id, so that apps show it once (ntfy 2.16).
		body, err := json.Marshal(map[string]any{
			"topic": topic, "title": e.headline(), "message": c.message(ctx, e, link), "sequence_id": e.sum(),
			"tags": tags, "priority": priority, "click": link,
		})
		if err != nil {
			return failure{code: codeRefused}
		}
		return post(ctx, client, source.Request{URL: server, Header: header, Body: body})
	}}, nil
}

// tagsAndPriority are the emoji of a message (https://docs.ntfy.sh/emojis/) and its priority: 3 by default, 4 for high.
func (e event) tagsAndPriority() (tags []string, priority int) {
	switch b, a := e.change.Before, e.change.After; {
	case e.text != "":
		return []string{"warning"}, 4
	case e.transition.Testnet:
		return []string{"test_tube"}, 3
	case e.change.Disputed():
		return []string{"warning"}, 4
	case a.Held() && !b.Arrived():
		return []string{"moneybag"}, 3
	case b.Held() && !a.Held(), a.Refunded > b.Refunded:
		return []string{"warning"}, 3
	}
	return nil, 3
}
