package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrSubscriberTaken is returned if another owner has the lease of the subscriber.
var ErrSubscriberTaken = errors.New("another instance delivers to this subscriber; wait until its lease ends")

// LeaseSubscriber is LeaseSubscribers of one subscriber.
func (l *Ledger) LeaseSubscriber(ctx context.Context, offer, name, owner string, now, until int64) (after int64, held bool, err error) {
	key := SubscriberKey{offer, name}
	places, err := l.LeaseSubscribers(ctx, map[SubscriberKey]string{key: owner}, now, until)
	after, held = places[key]
	return after, held, err
}

// SubscriberKey names a subscriber of an offer's transitions.
type SubscriberKey struct{ Offer, Name string }

// LeaseSubscribers leases subscribers to owners until a Unix second; one that is not after now ends
// the leases. It returns the Seq of the last transition that each leased subscriber has
// processed. A new subscriber starts after the newest transition of its offer.
func (l *Ledger) LeaseSubscribers(ctx context.Context, owners map[SubscriberKey]string, now, until int64) (after map[SubscriberKey]int64, err error) {
	var rows []string
	args := []any{now, until}
	for _, key := range slices.SortedFunc(maps.Keys(owners), SubscriberKey.compare) { // two instances lock them in one order
		n := len(args)
		rows = append(rows, fmt.Sprintf("($%[1]d, $%[2]d, coalesce((SELECT max(seq) FROM transitions WHERE offer = $%[1]d), 0), $%[3]d, $2)", n+1, n+2, n+3))
		args = append(args, key.Offer, key.Name, owners[key])
	}
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		after = make(map[SubscriberKey]int64, len(owners))
		_, err := query(ctx, tx, func(row scanner) (key SubscriberKey, err error) {
			var seq int64
			err = row.Scan(&key.Offer, &key.Name, &seq)
			after[key] = seq
			return key, err
		}, `INSERT INTO subscribers (offer, name, after_seq, owner, lease_until) VALUES `+strings.Join(rows, ", ")+`
			ON CONFLICT (offer, name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
			WHERE subscribers.owner = excluded.owner OR `+due("subscribers.lease_until", "$1", LongestLease)+`
			RETURNING offer, name, after_seq`, args...)
		if err != nil {
			return fmt.Errorf("leasing subscribers: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

func (s SubscriberKey) compare(other SubscriberKey) int {
	return cmp.Or(strings.Compare(s.Offer, other.Offer), strings.Compare(s.Name, other.Name))
}

// Undelivered counts the transitions that each subscriber of any offer has not processed.
func (l *Ledger) Undelivered(ctx context.Context) (map[SubscriberKey]int64, error) {
	behind := make(map[SubscriberKey]int64)
	_, err := collect(ctx, l, func(row scanner) (key SubscriberKey, err error) {
		var count int64
		err = row.Scan(&key.Offer, &key.Name, &count)
		behind[key] = count
		return key, err
	}, `SELECT offer, name, (SELECT count(*) FROM transitions t WHERE t.offer = subscribers.offer AND t.seq > after_seq) FROM subscribers`)
	return behind, err
}

// AdvanceSubscriber records that a subscriber has processed the transitions up to the Seq after. Only
// the last owner may do so, also when its lease has ended. Error: ErrSubscriberTaken.
func (l *Ledger) AdvanceSubscriber(ctx context.Context, offer, name, owner string, after int64) error {
	advanced, err := l.writeStatement(ctx, fmt.Sprintf("advancing subscriber %q", name), `
		UPDATE subscribers SET after_seq = CASE WHEN after_seq < $1 THEN $1 ELSE after_seq END, refused_since = 0
		WHERE offer = $2 AND name = $3 AND owner = $4`, after, offer, name, owner)
	if err == nil && advanced == 0 {
		err = ErrSubscriberTaken
	}
	return err
}

// RefuseTransition records that the endpoint of a subscriber rejects the next transition, and
// returns the Unix second of the first refusal. AdvanceSubscriber resets it. Error: ErrSubscriberTaken.
func (l *Ledger) RefuseTransition(ctx context.Context, offer, name, owner string, now int64) (since int64, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var found bool
		since, found, err = atMostOne(query(ctx, tx, scanValue[int64], `
			UPDATE subscribers SET refused_since = CASE WHEN refused_since BETWEEN 1 AND $1 THEN refused_since ELSE $1 END
			WHERE offer = $2 AND name = $3 AND owner = $4 RETURNING refused_since`, now, offer, name, owner))
		switch {
		case err != nil:
			return fmt.Errorf("recording the rejection for subscriber %q: %w", name, err)
		case !found:
			return ErrSubscriberTaken
		}
		return nil
	})
	return since, err
}
