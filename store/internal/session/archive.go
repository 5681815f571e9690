package session

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// An archive is what this client has read of the archive of a table, whose cells do not change.
type archive struct {
	meta.Archive
	keys []meta.ArchivedKeys
}

// Whole returns what the catalogue says of a table, with the earlier keys that have cells of their own there.
func (db *Database) Whole(ctx context.Context, m *meta.Table) (*meta.Table, error) {
	if m.Archived.Empty() {
		return m, nil
	}
	db.mu.Lock()
	known := db.archives[m.ID]
	db.mu.Unlock()
	if known.From != m.Archived.From || known.To > m.Archived.To {
		known = archive{Archive: meta.Archive{From: m.Archived.From, To: m.Archived.From}}
	}
	if known.To < m.Archived.To {
		more, err := db.Catalogue.Archived(ctx, m.ID, meta.Archive{From: known.To, To: m.Archived.To})
		if err != nil {
			return nil, err
		}
		known = archive{m.Archived, append(known.keys[:len(known.keys):len(known.keys)], more...)}
		db.mu.Lock()
		db.archives[m.ID] = known
		db.mu.Unlock()
	}
	return m.Whole(known.keys), nil
}
