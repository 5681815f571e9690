package cassandraurl

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// write puts files into a new folder, with mode 600.
func write(t *testing.T, files map[string]string) (path func(string) string) {
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

func TestPassword(t *testing.T) {
	file := write(t, map[string]string{
		"good": "hunter2\n", "crlf": "hunter2\r\n", "bare": "hunter2", "blank": " \n", "empty": "", "lines": "hunter2\nhunter2\n",
		"long": strings.Repeat("x", 5000), "open": "hunter2\n",
	})
	require.NoError(t, os.Chmod(file("open"), 0o644))
	none := func(context.Context, string) ([]byte, error) { panic("nobody is to be asked") }
	for _, name := range []string{"good", "crlf", "bare"} {
		got, err := (&Name{User: "app", PasswordFile: file(name)}).password(t.Context(), none)
		require.NoError(t, err)
		require.Equal(t, "hunter2", got)
	}
	wrong := map[string]string{
		"blank": "is empty; write the password to it, in one line", "empty": "is empty; write", "lines": "has several lines; it must hold the password and nothing else",
		"long": "has more than 4096 bytes", "missing": "there is no password file", ".": "is a folder; name the password file in it",
	}
	if runtime.GOOS != "windows" {
		wrong["open"] = "has mode 0644: others may read or change it; do 'chmod 600 " + file("open") + "', and change the password"
	}
	for name, says := range wrong {
		_, err := (&Name{User: "app", PasswordFile: file(name)}).password(t.Context(), none)
		require.ErrorContains(t, err, "password-file: ")
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := (&Name{User: "app", PasswordFile: "~/password"}).password(t.Context(), none)
	require.ErrorContains(t, err, "~ is not replaced within a URL")

	app := &Name{User: "app", Hosts: []string{"db1", "db2"}}
	_, err = app.password(t.Context(), nil)
	require.ErrorIs(t, err, ErrNoPassword)
	require.ErrorContains(t, err, "user app: no password is given: add password-file=FILE, or set RANGECRYPT_CASSANDRA_PASSWORD")

	asked := ""
	got, err := app.password(t.Context(), func(_ context.Context, prompt string) ([]byte, error) { asked = prompt; return []byte("typed"), nil })
	require.NoError(t, err)
	require.Equal(t, "typed", got)
	require.Equal(t, "Password of app at db1,db2: ", asked)
	_, err = app.password(t.Context(), func(context.Context, string) ([]byte, error) { return nil, nil })
	require.ErrorContains(t, err, "is empty")
	failure := errors.New("no terminal")
	_, err = app.password(t.Context(), func(context.Context, string) ([]byte, error) { return nil, failure })
	require.ErrorIs(t, err, failure)

	t.Setenv(PasswordVariable, "from the environment")
	got, err = app.password(t.Context(), none)
	require.NoError(t, err)
	require.Equal(t, "from the environment", got)
	got, err = (&Name{User: "app", PasswordFile: file("good")}).password(t.Context(), none)
	require.NoError(t, err)
	require.Equal(t, "hunter2", got, "the file goes first")
	got, err = new(Name).password(t.Context(), none)
	require.NoError(t, err)
	require.Empty(t, got, "nobody logs in")
	t.Setenv(PasswordVariable, "hunter2\n")
	_, err = app.password(t.Context(), none)
	require.ErrorContains(t, err, "RANGECRYPT_CASSANDRA_PASSWORD has several lines")
	require.NotContains(t, err.Error(), "hunter2")
}

// certificate returns one in PEM that is its own authority, and its key.
func certificate(t *testing.T, from, until time.Time, uses ...x509.ExtKeyUsage) (cert, key string) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, ExtKeyUsage: uses, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8)
}

func block(kind string, b []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
}

func TestTLS(t *testing.T) {
	now := time.Now()
	ca, caKey := certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	cert, key := certificate(t, now.Add(-time.Hour), now.Add(time.Hour), x509.ExtKeyUsageClientAuth)
	server, serverKey := certificate(t, now.Add(-time.Hour), now.Add(time.Hour), x509.ExtKeyUsageServerAuth)
	old, oldKey := certificate(t, now.Add(-2*time.Hour), now.Add(-time.Hour))
	next, nextKey := certificate(t, now.Add(time.Hour), now.Add(2*time.Hour))
	legacy, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	file := write(t, map[string]string{
		"ca": ca, "ca.key": caKey, "both": old + ca, "cert": cert, "chain": cert + ca, "key": key, "old": old, "old.key": oldKey, "next": next, "next.key": nextKey,
		"server": server, "server.key": serverKey, "rsa": block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(legacy)),
		"params": block("EC PARAMETERS", []byte{6, 0}) + key, "text": "no PEM", "torn": block("CERTIFICATE", []byte("torn")), "torn.key": block("PRIVATE KEY", []byte("torn")),
		"locked": block("ENCRYPTED PRIVATE KEY", []byte("x")), "open": key,
	})
	require.NoError(t, os.Chmod(file("open"), 0o640))
	name := func(ca, cert, key string) *Name {
		n := &Name{SystemAuthorities: ca == ""}
		for _, f := range []struct {
			to   *string
			name string
		}{{&n.CA, ca}, {&n.Cert, cert}, {&n.Key, key}} {
			if f.name != "" {
				*f.to = file(f.name)
			}
		}
		return n
	}
	for _, n := range []*Name{name("ca", "", ""), name("both", "", ""), name("", "", ""), name("ca", "cert", "key"), name("ca", "chain", "key"), name("ca", "cert", "params"), name("ca", "ca", "ca.key")} {
		n.ServerName = "db"
		_, c, err := n.Access(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "db", c.ServerName)
		require.Equal(t, n.CA == "", c.RootCAs == nil)
		require.Equal(t, n.Cert != "", len(c.Certificates) == 1)
		require.False(t, c.InsecureSkipVerify)
	}
	_, c, err := (&Name{}).Access(t.Context(), nil)
	require.NoError(t, err)
	require.Nil(t, c)

	cases := []struct {
		n    *Name
		says string
	}{
		{name("missing", "", ""), "ca: there is no file " + file("missing")},
		{name(".", "", ""), "is a folder; name the file in it"},
		{name("text", "", ""), "ca: " + file("text") + " holds no certificate in PEM"},
		{name("key", "", ""), "holds a private key and no certificate"},
		{name("torn", "", ""), "holds a certificate that cannot be read"},
		{name("old", "", ""), "ca: the certificate in " + file("old") + " was valid until " + now.Add(-time.Hour).UTC().Format("2006-01-02T15:04")},
		{name("next", "", ""), "check the clock of this machine"},
		{name("ca", "missing", "key"), "cert: there is no file"},
		{name("ca", ".", "key"), "cert: " + file(".") + " is a folder"},
		{name("ca", "text", "key"), "cert: " + file("text") + " holds no certificate"},
		{name("ca", "old", "old.key"), "cert: the certificate in " + file("old") + " was valid until"},
		{name("ca", "next", "next.key"), "cert: the certificate in " + file("next") + " is valid from"},
		{name("ca", "server", "server.key"), "is not made for clients (clientAuth)"},
		{name("ca", "cert", "missing"), "key: there is no private key " + file("missing")},
		{name("ca", "cert", "."), "is a folder; name the private key in it"},
		{name("ca", "cert", "text"), "key: " + file("text") + " holds no private key in PEM"},
		{name("ca", "cert", "cert"), "holds no private key in PEM"},
		{name("ca", "cert", "torn.key"), "holds no private key that can be read"},
		{name("ca", "cert", "locked"), "is encrypted, which is not supported: decrypt it"},
		{name("ca", "cert", "ca.key"), "key: the private key in " + file("ca.key") + " is not that of the certificate in " + file("cert")},
		{name("ca", "cert", "rsa"), "key: "},
	}
	if runtime.GOOS != "windows" {
		cases = append(cases, struct {
			n    *Name
			says string
		}{name("ca", "cert", "open"), "has mode 0640: others may read or change it"})
	}
	secret, _ := pem.Decode([]byte(key))
	for _, c := range cases {
		_, _, err := c.n.Access(t.Context(), nil)
		require.ErrorContains(t, err, c.says)
		require.False(t, bytes.Contains([]byte(err.Error()), secret.Bytes[:8]))
	}
	_, _, err = (&Name{CA: "~/ca.pem"}).Access(t.Context(), nil)
	require.ErrorContains(t, err, "~ is not replaced within a URL")
}
