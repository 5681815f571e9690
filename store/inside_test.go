package store

import (
	"context"
	"time"

	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// What tests see below the face of a table.

func (tbl *Table) now() *engine.Engine { return tbl.open().Now() }

func (tbl *Table) refresh(ctx context.Context) (*engine.Engine, error) {
	return tbl.open().Refresh(ctx)
}

func (tbl *Table) store() *Store { return &Store{tbl.open().Database()} }

// TypeID returns what the catalogue calls a type.
func TypeID(t Type) string { return innerOf(t).ID() }

// SetClock gives a store another clock, for tables that are opened from then on.
func SetClock(st *Store, now func() time.Time) { st.db.Clock.Now = now }

// Names of the layers below, as tests use them.

type (
	columnID   = meta.ColumnID
	columnRef  = meta.ColumnRef
	encryption = meta.Encryption
	fieldMeta  = meta.Field
	tableID    = meta.TableID
	tableMeta  = meta.Table
	tenantMeta = meta.Tenant
	wrappedKey = meta.WrappedKey

	digest    = catalogue.Digest
	edit      = catalogue.Edit
	metaEntry = catalogue.Entry
)

// The values of [Schema.CellPerColumn].
const packed, cellPerColumn = false, true

const (
	maxColumns = meta.MaxColumns
	tokenSize  = meta.TokenSize

	purposeCell   = keyring.PurposeCell
	purposeOrder  = keyring.PurposeOrder
	purposeRow    = keyring.PurposeRow
	purposeSearch = keyring.PurposeSearch
	purposeToken  = keyring.PurposeToken

	catalogueFamily = catalogue.FamilyName
	catalogueFormat = catalogue.Format
	formatNoTree    = catalogue.FormatNoTree
	formatLease     = catalogue.FormatLease
	formatFields    = catalogue.FormatFields
	keptChanges     = catalogue.KeptChanges
	sweepParts      = catalogue.ProgressParts
	tableEntry      = catalogue.TableEntry
	tenantEntry     = catalogue.TenantEntry
	treeLevels      = catalogue.TreeLevels
)

var (
	newHeader = keyring.NewHeader
	place     = keyring.Place

	catalogueRow      = catalogue.Row
	catalogueSpec     = catalogue.Spec
	cutRoot           = catalogue.CutRoot
	errPutBack        = catalogue.ErrPutBack
	onlyRoot          = catalogue.OnlyRoot
	path              = catalogue.Path
	progressQualifier = catalogue.ProgressOf
	rootPlace         = catalogue.RootPlace
	rootQualifier     = catalogue.RootQualifier
)

// encoded sets what a record is found by.
func encoded(ctx context.Context, t *rowcodec.View, r *rowcodec.Record) error {
	_, err := t.EncodeAll(ctx, []*rowcodec.Record{r})
	return err
}
