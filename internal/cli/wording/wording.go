// Package wording puts what the library says to programs into words for people at a command line. The library names what
// its callers write, such as a field of a schema or a method; people write flags and schema files.
package wording

import "strings"

// phrases are what errors and warnings of the library say, and what people can act on in their place. They are long, so
// that no name of a table or column has one in it. The test finds phrases that are gone, and names of Go that are not here.
var phrases = strings.NewReplacer(
	// Schemas.
	"make the table with AppendOnly or Conditional", "make a table for it whose schema file says append-only: true or conditional: true",
	"rows of a table with AppendOnly are never replaced, so that Conditional means nothing", "rows of a table with append-only are never replaced, so that conditional means nothing",
	": AppendOnly needs a tie-breaker", ": append-only needs a tie-breaker",
	"has no scheme: give one, such as MOPE", "has no scheme: give one, such as mope",
	"; see RotateTenantKey", "",
	"has tenants; open it for one with Table.Tenant", "has tenants; name one with --tenant",
	"it is not valid UTF-8; use Bytes", "it is not valid UTF-8; a column of type bytes takes it",

	// Values and types.
	"ope: invalid parameters", "not possible",
	"ope: value outside the domain", "value outside of the bounds",
	"ope: invalid key", "it is no key",
	"encode: value is finer than what is kept", "value is finer than what is kept",
	"driver: key or value too large", "too large",

	// Queries.
	"in each branch of an Or", "in each branch of an 'or'",
	"the lists of In multiply", "the lists of 'in' multiply",
	`" for By`, `"`,
	": By names no column that can drive the query", ": it names no column that can drive the query",
	" is none: By names a column", " is none: name a column",
	"it has no predicate", "it has no condition",

	// Maintenance and databases.
	"Verify with Repair, 'rangecrypt verify --repair',", "'rangecrypt verify --repair'",
	"no answer within the time that Options.Timeout gives", "no answer within a minute",
	"; set Datacentre accordingly", "; give --store the dc that it was made with, or none; if that has another name by now, docs/operations.md says how the store gets it",
	"the server expects TLS there: set TLS", "the server expects TLS there: add ca=FILE or tls=system to the name of the store",
	"give a user name and a password", "add user=ROLE and password-file=FILE to the name of the store",
	"is not trusted: give the authority that signed it", "is not trusted: give the authority that signed it, by ca=FILE in the name of the store",
	"or give it as the server name of TLS", "or give it by server-name=NAME in the name of the store",
	"it may require a certificate of the client, or not trust the one that it got", "it may require a certificate of the client, which cert=FILE and key=FILE in the name of the store give, or not trust the one that it got",
	"make the family again, with SpreadBits", "make the table again, with spread-bits",
	"make the family again, with more SpreadBits, or declare the domain", "make the table again, with more spread-bits, or declare the bounds",
)

// ForPeople returns a text of the library in such words.
func ForPeople(text string) string { return phrases.Replace(text) }
