package ope

import "errors"

// Errors that callers may branch on. They are returned wrapped; use errors.Is. No error of this
// module contains a plaintext or key material.
var (
	// ErrParams is returned by constructors whose parameters do not describe a scheme.
	ErrParams = errors.New("ope: invalid parameters")

	// ErrKey is returned when a secret is not usable as a key.
	ErrKey = errors.New("ope: invalid key")

	// ErrDomain is returned when a plaintext is outside the domain of the scheme.
	ErrDomain = errors.New("ope: value outside the domain")

	// ErrCiphertext is returned when a byte string is not the ciphertext of any plaintext: it is
	// damaged, has the wrong length, or belongs to another key or scheme.
	ErrCiphertext = errors.New("ope: not a ciphertext of this key and scheme")

	// ErrStale is returned when a ciphertext or an interval of a [Mutable] scheme was handed out
	// before ciphertexts moved. Ask the client that returned the error for it again: that one knows
	// of the move. Another client may not know of it yet, see [Mutable].
	ErrStale = errors.New("ope: ciphertext was handed out before a rebalance")

	// ErrUnknownOutcome is returned by [Index.Commit] when nobody can know whether the change
	// was applied. Read the unit to learn it; never just repeat the commit.
	ErrUnknownOutcome = errors.New("ope: commit may or may not have been applied")

	// ErrIndex is returned when an [Index] holds what this scheme did not write: its unit belongs
	// to another scheme, key or version, or a record was changed. The error says which.
	ErrIndex = errors.New("ope: not an index of this key and scheme")

	// ErrFull is returned when a unit of an [Index] has no room for another value, and cannot be divided.
	ErrFull = errors.New("ope: index unit is full")
)
