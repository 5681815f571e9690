package store

import (
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Names of the layers below, as this package uses them.

type bound = value.Bound

type (
	alteration = meta.Alteration
	columnID   = meta.ColumnID
	columnRef  = meta.ColumnRef
	encryption = meta.Encryption
	field      = meta.Spec
	fieldMeta  = meta.Field
	indexRef   = meta.IndexRef
	metaLayout = meta.Layout
	metaSchema = meta.Schema
	policyMeta = meta.Policy
	share      = meta.Share
	tableID    = meta.TableID
	tableMeta  = meta.Table
	tenantID   = meta.TenantID
	tenantMeta = meta.Tenant
	wrappedKey = meta.WrappedKey
)

const (
	deterministic = meta.Deterministic
	hashed        = meta.Hashed
	layoutPacked  = meta.Packed
	maxColumns    = meta.MaxColumns
	ofColumn      = meta.OfColumn
	ofColumns     = meta.OfColumns
	ofDatabase    = meta.OfDatabase
	ordered       = meta.Ordered
	plain         = meta.Plain
	randomised    = meta.Randomised
	tieBreaker    = meta.TieBreaker
	tokenSize     = meta.TokenSize
)

var (
	changed         = meta.Changed
	checkTableName  = meta.CheckTableName
	checkTenantName = meta.CheckTenantName
	checkUnseal     = meta.Unsealed
	newTableMeta    = meta.New
	reshare         = meta.Reshare
	unshared        = meta.Unshared
)

type (
	keys      = keyring.Keys
	sealers   = keyring.Sealers
	tableKeys = keyring.Table
)

const (
	keptUnit      = keyring.KeptUnit
	purposeCell   = keyring.PurposeCell
	purposeOrder  = keyring.PurposeOrder
	purposeRow    = keyring.PurposeRow
	purposeSearch = keyring.PurposeSearch
	purposeToken  = keyring.PurposeToken
)

var (
	keyID     = keyring.ID
	newHeader = keyring.NewHeader
	place     = keyring.Place
)

type (
	digest    = catalogue.Digest
	edit      = catalogue.Edit
	metaEntry = catalogue.Entry

	tenantRef = catalogue.TenantRef
)

const (
	catalogueFamily = catalogue.FamilyName
	catalogueFormat = catalogue.Format
	formatNoTree    = catalogue.FormatNoTree
	keptChanges     = catalogue.KeptChanges
	sweepParts      = catalogue.ProgressParts
	tableEntry      = catalogue.TableEntry
	tenantEntry     = catalogue.TenantEntry
	treeLevels      = catalogue.TreeLevels
)

var (
	catalogueRow      = catalogue.Row
	catalogueSpec     = catalogue.Spec
	cutRoot           = catalogue.CutRoot
	errPutBack        = catalogue.ErrPutBack
	onlyRoot          = catalogue.OnlyRoot
	openCatalogue     = catalogue.Open
	path              = catalogue.Path
	progressQualifier = catalogue.ProgressOf
	putBack           = catalogue.PutBack
	rootPlace         = catalogue.RootPlace
	rootQualifier     = catalogue.RootQualifier
)

var (
	metaQualifier  = index.MetaQualifier
	nonceQualifier = index.NonceQualifier
)
