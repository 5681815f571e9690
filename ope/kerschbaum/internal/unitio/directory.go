package unitio

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// The directory is a part of the root: a record for each shard but the first, with where it ended when it was written.
// It spares new clients the way from shard to shard, and is nothing but a hint.
const mostShards = 4096 // that a client reads of the directory

// ReadRoot returns what the root is, whose generation is the epoch that it names, or 0, and the directory. If a record
// of that cannot be opened, it returns those before it.
func (s *Shard) ReadRoot(ctx context.Context) (is ope.Meta, directory []unit.Listing, err error) {
	u := s.Unit(unit.Root)
	view, err := s.ReadRecords(ctx, u, nil, nil, mostShards)
	if err != nil {
		return view.Meta, nil, err
	}
	for _, r := range view.Records {
		l, ok, err := u.OpenListing(r)
		if err != nil {
			return view.Meta, directory, err
		}
		if ok {
			directory = append(directory, l)
		}
	}
	return view.Meta, directory, nil
}

// List puts a shard into the directory, unless it is there with an edge as high.
func (s *Shard) List(ctx context.Context, l unit.Listing) error {
	u := s.Unit(unit.Root)
	listed := u.SealListing(l)
	for conflicts := 0; ; conflicts++ {
		view, err := s.ReadRecords(ctx, u, listed.Key, append(bytes.Clone(listed.Key), 0), 1)
		if err != nil {
			return err
		}
		if len(view.Records) > 0 {
			if was, _, err := u.OpenListing(view.Records[0]); err != nil || was.High.Value >= l.High.Value {
				return err
			}
		}
		change := ope.Change{
			Puts: []ope.Record{listed},
			Meta: ope.Meta{State: ope.StateOpen, Generation: max(view.Meta.Generation, l.Epoch), Nonce: NewNonce()},
		}
		cond := ope.Condition{State: view.Meta.State, Generation: view.Meta.Generation, Nonce: &view.Meta.Nonce}
		applied, err := s.Commit(ctx, u, cond, change)
		if err != nil || applied {
			return err
		}
		if err := BackOff(ctx, conflicts); err != nil {
			return err
		}
	}
}
