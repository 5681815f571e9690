package store

import (
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func TestIdentity(t *testing.T) {
	opetest.TestScheme(t, func(_ testing.TB, d ope.Domain) ope.Scheme { return newIdentity(d) })
}
