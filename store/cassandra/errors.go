package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// failed gives an error of gocql its kind. It is nil for nil.
func (db *DB) failed(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cassandra: %w", db.failedPart(ctx, what, err))
}

// Failed gives an error of a session that [Connect] made, or the application, its kind. It is nil for nil.
func Failed(ctx context.Context, what string, err error) error {
	return (&DB{attempts: new(attempts)}).failed(ctx, what, err)
}

// failedPart does so for a part of an operation, whose error says already where it is from.
func (db *DB) failedPart(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, pause.Ended(ctx))
	}
	err = ofConnection(err)
	if errors.Is(err, gocql.ErrNoConnections) {
		if refused := db.attempts.refused(); refused != nil {
			err = refused
		}
	}
	advice, kind := kindOf(err)
	if kind == driver.ErrUnavailable && db.open != nil && db.open.Err() != nil { // by Close, under the call
		kind = driver.ErrClosed
	}
	switch {
	case kind == nil:
		return fmt.Errorf("%s: %w", what, err)
	case kind == driver.ErrTooLarge:
		// The server's words on a mutation that is too large contain its key.
		return fmt.Errorf("%s: %w: %w", what, kind, quiet{advice, err})
	case advice != "":
		return fmt.Errorf("%s: %w: %w: %s", what, kind, err, advice)
	}
	return fmt.Errorf("%s: %w: %w", what, kind, err)
}

// ofConnection returns what an error says that gocql gives while the caller's context is alive.
// gocql prepares a statement under the context of the connection, not of the caller: when the
// connection is lost then, it says that the context was cancelled.
func ofConnection(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return gocql.ErrConnectionClosed
	case errors.Is(err, context.DeadlineExceeded):
		return gocql.ErrTimeoutNoResponse
	}
	return err
}

// quiet is an error whose own words are not shown.
type quiet struct {
	text string
	err  error
}

func (q quiet) Error() string { return q.text }
func (q quiet) Unwrap() error { return q.err }

// unindexed gives the error of a scan by an index that was dropped its kind.
func unindexed(r driver.Range, err error) error {
	var invalid gocql.RequestError
	if r.Index == nil || !errors.As(err, &invalid) || invalid.Code() != gocql.ErrCodeInvalid {
		return err
	}
	if strings.Contains(invalid.Message(), "ALLOW FILTERING") { // which nobody can add here
		return fmt.Errorf("%w: %w", driver.ErrNoIndex, quiet{"somebody has dropped it, or a restore has left it out; Verify with Repair, 'rangecrypt verify --repair', makes it again", err})
	}
	return fmt.Errorf("%w: %w", driver.ErrNoIndex, err)
}

// kindOf returns what to do about an error, or "", and its kind, nil where there is none.
func kindOf(err error) (advice string, kind error) {
	var unavailable *gocql.RequestErrUnavailable
	if errors.As(err, &unavailable) {
		return fmt.Sprintf("%v needs %d replicas, of which %d are alive: start the nodes that have the others; only a keyspace without rows may get fewer copies in their place, since that moves no rows",
			unavailable.Consistency, unavailable.Required, unavailable.Alive), driver.ErrUnavailable
	}
	var request gocql.RequestError
	if errors.As(err, &request) {
		message := request.Message()
		switch request.Code() {
		case gocql.ErrCodeCredentials, gocql.ErrCodeUnauthorized:
			if strings.HasPrefix(message, unableTo) {
				return "", driver.ErrUnavailable
			}
			return refusalAdvice(message), driver.ErrUnauthorised
		case gocql.ErrCodeReadTimeout, gocql.ErrCodeReadFailure, gocql.ErrCodeWriteTimeout, gocql.ErrCodeCASWriteUnknown,
			gocql.ErrCodeOverloaded, gocql.ErrCodeBootstrapping, gocql.ErrCodeTruncate:
			return "", driver.ErrUnavailable
		}
		switch {
		case tooLarge(message):
			return "the server takes less at a time: raise its max_mutation_size and native_transport_max_message_size, or write less at once", driver.ErrTooLarge
		case hooks.NoTable(message):
			return "", driver.ErrNoFamily
		case request.Code() == gocql.ErrCodeWriteFailure:
			return "", driver.ErrUnavailable
		}
		return "", nil
	}
	if errors.Is(err, gocql.ErrTooManyStmts) {
		return "a change of one row may name 65,535 cells", driver.ErrTooLarge
	}
	for _, e := range []error{
		gocql.ErrNoConnections, gocql.ErrNoConnectionsStarted, gocql.ErrConnectionClosed, gocql.ErrTimeoutNoResponse,
		gocql.ErrNoStreams, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	} {
		if errors.Is(err, e) {
			return "", driver.ErrUnavailable
		}
	}
	if errors.Is(err, gocql.ErrSessionClosed) {
		return "", driver.ErrClosed
	}
	if advice := mistrust(err); advice != "" {
		return advice, driver.ErrUnauthorised
	}
	if errors.As(err, new(net.Error)) {
		return "", driver.ErrUnavailable
	}
	return "", nil
}

// refusesOptions reports whether the server does not take what a statement sets.
func refusesOptions(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && (request.Code() == gocql.ErrCodeConfig || request.Code() == gocql.ErrCodeInvalid)
}

// unableTo begins what Cassandra says, with the code of a refusal, when it cannot read who may do what.
const unableTo = "Unable to perform auth"

// Cassandra's words on a right that a role lacks, which name a right and what it is about.
var noRight = regexp.MustCompile(`^User (.+) has no (\w+) permission on <(all keyspaces|all tables in|keyspace|table) ?([^. >]*)`)

// refusalAdvice returns what to do about a login or a right that the server refuses.
func refusalAdvice(message string) string {
	if right := noRight.FindStringSubmatch(message); right != nil {
		role := right[1]
		if !validName(role, len(role)) {
			role = `"` + strings.ReplaceAll(role, `"`, `""`) + `"`
		}
		if right[3] == "all keyspaces" {
			return fmt.Sprintf("have an administrator make the keyspace, or GRANT %s ON ALL KEYSPACES TO %s", right[2], role)
		}
		// Tables have names that nobody knows before they are made.
		return fmt.Sprintf("have an administrator GRANT %s ON KEYSPACE %s TO %s", right[2], right[4], role)
	}
	switch {
	case strings.Contains(message, "password are incorrect"):
		return "check the user name and the password"
	case strings.HasSuffix(message, "is not permitted to log in"):
		return "have an administrator ALTER ROLE it WITH LOGIN = true, or take another role"
	}
	return ""
}

// untrusted returns what to do about a certificate of the server.
func untrusted(err *tls.CertificateVerificationError) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		whose := "the server's certificate"
		if invalid.Cert.IsCA {
			whose = "the certificate of an authority"
		}
		if from := invalid.Cert.NotBefore; time.Now().Before(from) {
			return fmt.Sprintf("%s is valid from %s on: check the clock of this machine", whose, from.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("%s was valid until %s: replace it, or check the clock of this machine", whose, invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &name):
		return "the server's certificate is made for another name: connect by that name, or give it as the server name of TLS"
	}
	return "the server's certificate is not trusted: give the authority that signed it"
}

// mistrust returns what to do where client and server do not agree on TLS, and "" where that is not
// what an error says.
func mistrust(err error) string {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		network     *net.OpError
	)
	switch {
	case errors.Is(err, errNoLogin):
		return "give a user name and a password"
	case errors.As(err, &certificate):
		return untrusted(certificate)
	case errors.As(err, &record):
		return "the server answers without TLS: connect to its port for TLS, or without TLS"
	case errors.As(err, &network) && network.Op == "remote error":
		return "the server refused the TLS connection: it may require a certificate of the client, or not trust the one that it got"
	case strings.HasPrefix(err.Error(), "tls: "):
		return "check the TLS configuration of both sides"
	}
	return ""
}

// Cassandra has no code of its own for that. Its wording has been the same since 4.0
// (CQL Message, Mutation) or before.

func tooLarge(message string) bool {
	return strings.Contains(message, "exceeds allowed maximum") ||
		strings.Contains(message, "oversized mutation") ||
		strings.Contains(message, "too large for the maximum size") ||
		strings.HasPrefix(message, "Request is too big") ||
		strings.HasPrefix(message, "Batch too large")
}

// unknownYet reports whether a statement may have failed because a node does not know a table that
// another one knows.
func unknownYet(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) &&
		(hooks.NoTable(request.Message()) || request.Code() == gocql.ErrCodeServer ||
			request.Code() == gocql.ErrCodeReadFailure || request.Code() == gocql.ErrCodeWriteFailure)
}

// notApplied reports whether an error of a conditional statement was met before anything could
// be applied.
func notApplied(err error) bool {
	for _, e := range []error{gocql.ErrNoConnections, gocql.ErrNoStreams, gocql.ErrSessionClosed, gocql.ErrTooManyStmts} {
		if errors.Is(err, e) {
			return true
		}
	}
	var unavailable *gocql.RequestErrUnavailable
	if errors.As(err, &unavailable) {
		// Found before the first round. At the consistency of the commit, it comes after the
		// last one: then the change has been accepted.
		return unavailable.Consistency == gocql.Serial || unavailable.Consistency == gocql.LocalSerial
	}
	var request gocql.RequestError
	if errors.As(err, &request) {
		switch request.Code() {
		case gocql.ErrCodeInvalid, gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeConfig, gocql.ErrCodeCredentials:
			return true
		}
	}
	return hooks.Refused(err)
}

// contended reports whether a read at SERIAL may have failed only because others were changing the
// same row.
func contended(err error) bool {
	var request gocql.RequestError
	if !errors.As(err, &request) {
		return false
	}
	switch request.Code() {
	case gocql.ErrCodeReadTimeout, gocql.ErrCodeWriteTimeout, gocql.ErrCodeCASWriteUnknown:
		return true
	}
	return false
}

// failedCAS gives an error of a conditional statement its kind.
func (db *DB) failedCAS(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if notApplied(err) {
		return db.failed(ctx, what, err)
	}
	switch {
	case ctx.Err() == nil:
		err = ofConnection(err)
	case errors.Is(err, ctx.Err()):
		err = pause.Ended(ctx)
	default:
		err = fmt.Errorf("%w: %w", pause.Ended(ctx), err)
	}
	return fmt.Errorf("cassandra: %s: %w: %w", what, driver.ErrUnknownOutcome, err)
}

// retry repeats a statement that may be repeated on another node, when the connection broke or
// the node cannot serve or does not know the table. After a timeout it does not, since the caller's patience is used up and
// the cluster is too busy already.
type retry struct {
	// Of a statement that may be repeated: gocql asks Attempt, then GetRetryType, and may do so for two nodes at a time.
	ctx atomic.Pointer[context.Context]
}

func (r *retry) Attempt(q gocql.RetryableQuery) bool {
	if q.Attempts() > 2 {
		r.ctx.Store(nil)
		return false
	}
	ctx := q.Context()
	r.ctx.Store(&ctx)
	return true
}

func (r *retry) GetRetryType(err error) gocql.RetryType {
	to := retryType(err)
	if ctx := r.ctx.Load(); to == gocql.RetryNextHost && ctx != nil {
		pause.Repeats(*ctx, "server_unavailable")
	}
	return to
}

// again does so for idempotent statements of a session that [Connect] made, which have no policy of their own.
type again struct{ *gocql.SimpleRetryPolicy }

func (again) GetRetryType(err error) gocql.RetryType { return retryType(err) }

func retryType(err error) gocql.RetryType {
	var request gocql.RequestError
	if errors.As(err, &request) {
		if hooks.Refused(err) {
			return gocql.RetryNextHost
		}
		return gocql.Rethrow
	}
	if errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return gocql.Rethrow
	}
	if _, kind := kindOf(err); kind == driver.ErrUnavailable {
		return gocql.RetryNextHost
	}
	return gocql.Rethrow
}
