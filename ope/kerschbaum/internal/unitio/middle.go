package unitio

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// A Search for the middle of a unit reads half of it, a part with each call.
type Search struct {
	from []byte // where it goes on; nil: from the beginning
	n    int    // records so far
	at   order.Label
}

// Middle returns about the label that half of so many values of a unit are below, or zero if it is not known yet. It reports
// whether the unit has fewer than half of them. The rules are those of the unit's part.
func (s *Shard) Middle(ctx context.Context, u *unit.Unit, found *Search, rules order.Rules, values, atOnce int) (at order.Label, fewer bool, err error) {
	const most = 8 // reads, so that nobody's insertion waits for all of them
	for range most {
		if from := rules.From.Next().Bytes(); bytes.Compare(found.from, from) < 0 {
			*found = Search{from: from}
		}
		view, err := s.ReadRecords(ctx, u, found.from, rules.High().Label.Bytes(), atOnce)
		if err != nil {
			return order.Label{}, false, err
		}
		if found.count(view.Records, values) {
			at = found.at
			*found = Search{}
			return at, false, nil
		}
		if !view.More {
			*found = Search{}
			return order.Label{}, true, nil
		}
	}
	return order.Label{}, false, nil
}

// count counts records, and reports whether the middle is among them.
func (found *Search) count(records []ope.Record, values int) bool {
	for _, r := range records {
		if found.n++; found.n > values/2 {
			return true
		}
		found.at, _ = order.ParseLabel(r.Key)
		found.from = append(bytes.Clone(r.Key), 0)
	}
	return false
}
