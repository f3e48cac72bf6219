package payoffer

import (
	"cmp"
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// AnnounceConfig is an endpoint that is notified of receipts: one of url, ntfy and email.
type AnnounceConfig struct {
	// The URL of a webhook (Standard Webhooks).
	URL string `json:"url,omitempty"`

	// The secret that signs (whsec_…). While you change it, give two: both sign. Default: none.
	Secret secret `json:"secret,omitempty"`

	// The second secret. Default: none.
	OtherSecret secret `json:"other_secret,omitempty"`

	// A topic of ntfy that gets a message. Default: none.
	Ntfy *NtfyConfig `json:"ntfy,omitempty"`

	// A mailbox that gets a message. Default: none.
	Email *EmailConfig `json:"email,omitempty"`
}

// NtfyConfig is a topic of an ntfy server.
type NtfyConfig struct {
	// The address of the topic, such as https://ntfy.example/topic. Without a login, everyone
	// who knows it can read the topic.
	URL string `json:"url,omitempty"`

	// An access token that may write to the topic. Default: none.
	Token secret `json:"token,omitempty"`
}

// EmailConfig is a mailbox, and the server to which its mail is sent.
type EmailConfig struct {
	// The mailbox that receives the messages.
	To string `json:"to,omitempty"`

	// The mail server with its port, such as mail.example:587. Required with a mailbox.
	SMTP string `json:"smtp,omitempty"`

	// The sender's mailbox. Default: the one that receives.
	From string `json:"from,omitempty"`

	// The name to log in with. Default: none.
	User string `json:"user,omitempty"`

	// The password of user. Required with user.
	Password secret `json:"password,omitempty"`

	// The encryption: starttls, implicit (TLS from the first byte), or off (only on this
	// machine). Default: implicit at port 465, off on this machine, else starttls.
	TLS string `json:"tls,omitempty"`
}

// UnmarshalCaddyfile reads 'announce [ntfy|email] <address> { ... }'.
func (a *AnnounceConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	var secrets lines
	own, block, values := options{"secret": &secrets}, "announce", []*string{&a.URL}
	if d.CountRemainingArgs() == 2 {
		d.NextArg()
		switch d.Val() {
		case "ntfy":
			a.Ntfy = new(NtfyConfig)
			own, block, values = a.Ntfy.options(), "announce ntfy", []*string{&a.Ntfy.URL}
		case "email":
			a.Email = new(EmailConfig)
			own, block, values = a.Email.options(), "announce email", []*string{&a.Email.To}
		default:
			values = nil
		}
	}
	if err := arguments(d, "announce [ntfy|email] <address> { ... }", values...); err != nil {
		return err
	}
	switch a.URL {
	case "ntfy":
		return d.Err("announce: the address of the topic is missing; write for example 'announce ntfy https://ntfy.sh/your-topic'")
	case "email":
		return d.Err("announce: the mailbox is missing; write for example 'announce email me@example.org'")
	}
	if a.Ntfy == nil && a.Email == nil && strings.Contains(a.URL, "@") && !strings.Contains(a.URL, "://") {
		return d.Err("announce: for a mailbox write 'announce email me@example.org { smtp mail.example.org:587 }'")
	}
	if _, err := own.unmarshalBlock(d, block); err != nil {
		return err
	}
	for _, s := range secrets {
		switch {
		case s == "":
			return d.Err("announce secret is empty; write {env.NAME} or {file.PATH}, or remove the option")
		case a.Secret == "":
			a.Secret = secret(s)
		case a.OtherSecret == "":
			a.OtherSecret = secret(s)
		default:
			return d.Err("announce secret: at most two secrets sign at once; remove the one that the endpoint no longer knows")
		}
	}
	return nil
}

func (n *NtfyConfig) options() options { return options{"token": &n.Token} }

func (e *EmailConfig) options() options {
	return options{"smtp": &e.SMTP, "from": &e.From, "user": &e.User, "password": &e.Password, "tls": &e.TLS}
}

// provision returns the endpoint, nil if its address is empty.
func (a *AnnounceConfig) provision(r *resolver, name string) announce.Endpoint {
	switch {
	case a.URL != "" && a.Ntfy != nil, a.URL != "" && a.Email != nil, a.Ntfy != nil && a.Email != nil:
		r.fail(name, errors.New("url, ntfy and email are separate endpoints; write one entry of announce for each of them"))
	case a.Ntfy != nil:
		return a.Ntfy.provision(r, name+" ntfy")
	case a.Email != nil:
		return a.Email.provision(r, name+" email")
	default:
		url := r.upstream(name, a.URL)
		if url == "" {
			return nil
		}
		r.customized = r.customized || publicHost(url)
		return announce.Webhook{URL: url, Secrets: []string{r.secret(name+" secret", a.Secret), r.secret(name+" secret", a.OtherSecret)}}
	}
	return nil
}

func (n *NtfyConfig) provision(r *resolver, name string) announce.Endpoint {
	url := r.upstream(name, n.URL)
	if url == "" {
		return nil
	}
	if _, _, err := announce.ParseTopic(url); err != nil {
		r.fail(name, err)
	}
	r.customized = r.customized || publicHost(url)
	return announce.Ntfy{URL: url, Token: r.secret(name+" token", n.Token)}
}

func (e *EmailConfig) provision(r *resolver, name string) announce.Endpoint {
	to := resolve(r, name, e.To, offer.ParseMailbox)
	if r.replace(e.To) == "" {
		return nil
	}
	server, word := r.replace(e.SMTP), r.replace(e.TLS)
	if server == "" {
		r.fail(name, errors.New("smtp is missing; add the mail server with its port, such as 'smtp mail.example.org:587'"))
	}
	resolve(r, name, e.SMTP, func(string) (string, error) { return announce.ChooseTLS(server, word) })
	r.customized = r.customized || publicHost("smtp://"+server)
	endpoint := announce.Email{To: to, Server: server, From: cmp.Or(resolve(r, name+" from", e.From, offer.ParseMailbox), to), TLS: word}
	if (e.User == "") != (e.Password == "") {
		r.fail(name, errors.New("user and password are needed together; add the missing one, such as 'password {env.ANNOUNCE_SMTP_PASSWORD}', or remove both"))
	}
	endpoint.User, endpoint.Password = r.text(name+" user", e.User, 80), r.replace(string(e.Password))
	switch {
	case endpoint.User == "" && endpoint.Password == "": // no login is meant
	case endpoint.User == "":
		r.secretsOff = append(r.secretsOff, name+" user "+e.User)
		endpoint.Password = ""
	default:
		if r.secret(name+" password", e.Password); endpoint.Password == "" {
			endpoint.User = ""
		}
	}
	return endpoint
}
