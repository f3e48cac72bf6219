package payoffer

import (
	"cmp"
	"errors"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
)

// The forms in which receipts are announced, and their options.

// The mistakes that the Caddyfile and the resolver both find.
const (
	missingSMTP = "smtp is missing; add the mail server with its port, as in 'smtp mail.example.org:587'"
	halfALogin  = "user and password belong together; give both or none"
	twoForms    = "a webhook, a topic of ntfy and a mailbox are announced to apart; give each an entry of its own"
)

func (a *AnnounceConfig) options() block {
	first, second := secret(&a.Secret), secret(&a.OtherSecret)
	return block{"secret": {
		repeats: true,
		parse: func(d *caddyfile.Dispenser) error {
			switch {
			case a.Secret == "":
				return first.parse(d)
			case a.OtherSecret == "":
				return second.parse(d)
			default:
				return d.Errf("%s: at most two secrets sign at once; take out the one that the receiver knows no more", d.Val())
			}
		},
		resolve: func(r *resolver, name string) {
			first.resolve(r, name)
			second.resolve(r, name)
		},
	}}
}

func (n *NtfyConfig) options() block { return block{"token": secret(&n.Token)} }

func (e *EmailConfig) options() block {
	return block{
		"smtp":     text(&e.SMTP, checkMailServer),
		"from":     text(&e.From, checkMailbox),
		"user":     text(&e.User, checkName),
		"password": secret(&e.Password),
		"tls":      text(&e.TLS, checkTLS),
	}
}

// parseAnnounce reads 'announce <url>', 'announce ntfy <url>' or 'announce email
// <mailbox>', and the block of that form.
func (h *Handler) parseAnnounce(d *caddyfile.Dispenser) error {
	a := new(AnnounceConfig)
	h.Announce = append(h.Announce, a)
	if d.NextArg() {
		switch d.Val() {
		case "ntfy":
			return a.parseNtfy(d)
		case "email":
			return a.parseEmail(d)
		}
		d.Prev()
	}
	if err := text(&a.URL, checkUpstream).parse(d); err != nil {
		return err
	}
	return a.options().parse(d, "announce")
}

func (a *AnnounceConfig) parseNtfy(d *caddyfile.Dispenser) error {
	a.Ntfy = new(NtfyConfig)
	if err := parseArguments(d, "announce ntfy", argument{&a.Ntfy.URL, checkTopic}); err != nil {
		return err
	}
	return a.Ntfy.options().parse(d, "announce ntfy")
}

func (a *AnnounceConfig) parseEmail(d *caddyfile.Dispenser) error {
	e := new(EmailConfig)
	a.Email = e
	if err := parseArguments(d, "announce email", argument{&e.To, checkMailbox}); err != nil {
		return err
	}
	served, options := false, e.options()
	options["smtp"] = noted(&served, options["smtp"])
	if err := options.parse(d, "announce email"); err != nil {
		return err
	}
	switch {
	case !served:
		return d.Errf("announce email: %s", missingSMTP)
	case e.halfALogin():
		return d.Errf("announce email: %s", halfALogin)
	case e.SMTP == "" || hasPlaceholder(e.SMTP+e.TLS):
		return nil
	}
	return checkArg(d, "announce email", e.SMTP, e.checkWay)
}

func (e *EmailConfig) halfALogin() bool { return (e.User == "") != (e.Password == "") }

// checkWay refuses a way to a mail server that is not encrypted and leaves this
// machine.
func (e *EmailConfig) checkWay(server string) error {
	_, err := announce.ChooseTLS(server, e.TLS)
	return err
}

func (h *Handler) resolveAnnounce(r *resolver, name string) {
	h.Announce = keep(r, name, h.Announce, func(a *AnnounceConfig) bool {
		switch {
		case a.URL != "" && a.Ntfy != nil, a.URL != "" && a.Email != nil, a.Ntfy != nil && a.Email != nil:
			r.fail(name, errors.New(twoForms))
			return false
		case a.Ntfy != nil:
			return a.Ntfy.resolve(r, name+" ntfy")
		case a.Email != nil:
			return a.Email.resolve(r, name+" email")
		}
		if r.text(name, &a.URL, checkUpstream); a.URL == "" {
			return false
		}
		a.options().resolve(r, name)
		return true
	})
}

func (n *NtfyConfig) resolve(r *resolver, name string) bool {
	if r.text(name, &n.URL, checkTopic); n.URL == "" {
		return false
	}
	n.options().resolve(r, name)
	return true
}

func (e *EmailConfig) resolve(r *resolver, name string) bool {
	if r.text(name, &e.To, checkMailbox); e.To == "" {
		return false
	}
	found := len(r.errs)
	if e.halfALogin() {
		r.fail(name, errors.New(halfALogin))
	}
	if hasPlaceholder(e.User) && r.repl.ReplaceKnown(e.User+e.Password, "") == "" {
		e.User, e.Password = "", "" // nobody is meant to log in, and nothing is off
	}
	e.options().resolve(r, name)
	switch {
	case len(r.errs) > found:
	case e.SMTP == "":
		r.fail(name, errors.New(missingSMTP))
	case e.halfALogin():
		if e.User == "" {
			r.off = append(r.off, name+" user")
		}
		e.User, e.Password = "", "" // off, of which the resolver warns
		fallthrough
	default:
		if err := e.checkWay(e.SMTP); err != nil {
			r.fail(name, err)
		}
	}
	return true
}

// sink is the receiver that the options describe.
func (a *AnnounceConfig) sink() announce.Endpoint {
	switch {
	case a.Ntfy != nil:
		return announce.Ntfy{URL: a.Ntfy.URL, Token: a.Ntfy.Token}
	case a.Email != nil:
		e := a.Email
		return announce.Email{To: e.To, Server: e.SMTP, From: cmp.Or(e.From, e.To), User: e.User, Password: e.Password, TLS: e.TLS}
	default:
		return announce.Webhook{URL: a.URL, Secrets: []string{a.Secret, a.OtherSecret}}
	}
}
