package announce

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Ntfy is a topic of an ntfy server.
type Ntfy struct {
	// URL is the topic's. Who knows it can read and write there.
	URL string
	// Token is an access token, or empty.
	Token string
}

// topicForm is that of a topic (ntfy, server/server.go, topicRegex).
var topicForm = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// ParseTopic takes the URL of a topic apart: into the server's, to which messages
// are sent as JSON, and the topic's name. The error repeats none of it.
func ParseTopic(s string) (server, topic string, err error) {
	at := strings.LastIndexByte(s, '/')
	if at < 0 || !topicForm.MatchString(s[at+1:]) {
		return "", "", errors.New("the URL does not end in a topic; write it as in https://ntfy.example.org/topic, the topic in letters, digits, hyphens and underscores")
	}
	_, err = offer.ParseURL(s)
	if u, _ := url.Parse(s); err == nil && (u.RawQuery != "" || u.Fragment != "" || u.Path == "") {
		err = errors.New("the URL of a topic has no query and no fragment; write it as in https://ntfy.example.org/topic")
	}
	return s[:at+1], s[at+1:], err
}

func (s Ntfy) receiver(c *Config) (receiver, error) {
	server, topic, err := ParseTopic(s.URL)
	if err != nil {
		return receiver{}, err
	}
	header := http.Header{"User-Agent": {"caddy-pay-offer"}}
	if s.Token != "" {
		header.Set("Authorization", "Bearer "+s.Token)
	}
	client := c.client()
	return receiver{"ntfy", s.URL, offer.Host(s.URL), func(ctx context.Context, e event) failure {
		body, err := json.Marshal(message{topic, e.subject(), e.text(), e.sum()})
		if err != nil {
			return failure{code: codeRefused}
		}
		return post(ctx, client, source.Request{URL: server, Header: header, Body: body})
	}}, nil
}

// message is what ntfy takes as JSON. It travels in no header, so that nothing in it
// can be taken for one. A later message of a sequence replaces the one before it in
// the apps, so that what is sent twice is shown once; servers before 2.16 do not know
// the field and pass the message on.
type message struct {
	Topic    string `json:"topic"`
	Title    string `json:"title"`
	Message  string `json:"message"`
	Sequence string `json:"sequence_id"`
}
