package hooks

import (
	"errors"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Elsewhere is a policy that repeats a statement on another node where one has [Refused] it, and for no other reason.
var Elsewhere gocql.RetryPolicy = elsewhere{&gocql.SimpleRetryPolicy{NumRetries: 2}}

type elsewhere struct{ *gocql.SimpleRetryPolicy }

// GetRetryType implements [gocql.RetryPolicy].
func (elsewhere) GetRetryType(err error) gocql.RetryType {
	if Refused(err) {
		return gocql.RetryNextHost
	}
	return gocql.Rethrow
}

// Refused reports whether a node has refused a statement and has done nothing, while another one may take it. It is about to end, and
// keeps its connections until then; it is not ready yet; or it does not know the table. One that has just come back serves clients
// before it knows tables that were made meanwhile. So another node is asked before a table counts as gone.
func Refused(err error) bool {
	var request gocql.RequestError
	if !errors.As(err, &request) {
		return false
	}
	switch request.Code() {
	case gocql.ErrCodeBootstrapping:
		return true
	case gocql.ErrCodeOverloaded: // also of a coordinator that has begun; Cassandra has no code of its own for a node that ends
		return request.Message() == "Server is shutting down"
	}
	return request.Code() == gocql.ErrCodeInvalid && NoTable(request.Message())
}

// NoTable reports whether a message of Cassandra, which has no code for that, says that there is no table. Its wording has been the
// same since 4.0 or before.
func NoTable(message string) bool {
	return strings.HasPrefix(message, "table ") && strings.HasSuffix(message, " does not exist") ||
		strings.HasPrefix(message, "keyspace ") && strings.HasSuffix(message, " does not exist") ||
		strings.HasPrefix(message, "Keyspace ") && (strings.HasSuffix(message, " does not exist") || strings.HasSuffix(message, " doesn't exist")) ||
		strings.HasPrefix(message, "unconfigured table") ||
		strings.HasSuffix(strings.TrimRight(message, "0123456789abcdef-"), ".IllegalArgumentException: Unknown CF ") // of a conditional statement
}

// TooManyAsked reports whether a server forbids a statement that names as many cells, those of all its rows together. Cassandra has no
// code for that: it is the guardrail in_select_cartesian_product_fail_threshold.
func TooManyAsked(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && request.Code() == gocql.ErrCodeInvalid && strings.HasPrefix(request.Message(), "Guardrail in_select_cartesian_product ")
}
