package hbasesource_test

import (
	"context"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/hbasesource"
)

// An application goes on to write its table, and the encrypted one follows.
func ExampleNewClient() {
	ctx := context.Background()
	var st *store.Store // of the encrypted table
	db := store.Must(hbase.Open(ctx, "127.0.0.1:2181", nil))
	source := store.Must(hbasesource.New(db, "shop:orders", hbasesource.Mapping{
		Key:     []hbasesource.KeyPart{{Name: "customer", As: "utf8"}},
		Columns: []hbasesource.Column{{Name: "note", Cell: "d:note", As: "utf8"}},
	}))
	m := store.Must(migrate.New(store.Must(st.Table(ctx, "orders")), source))

	client := hbasesource.NewClient(gohbase.NewClient("127.0.0.1:2181"), source, m.Mirror())
	put := store.Must(hrpc.NewPutStr(ctx, "shop:orders", "ada", map[string]map[string][]byte{"d": {"note": []byte("urgent")}}))
	store.Must(client.Put(ctx, put))
}
