package cassandraurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/secretfile"
)

// PasswordVariable is the variable of the environment that may hold the password.
const PasswordVariable = "RANGECRYPT_CASSANDRA_PASSWORD"

// ErrNoPassword is returned where there is a user, and nothing says the password.
var ErrNoPassword = errors.New("no password is given: add password-file=FILE, or set " + PasswordVariable)

// An Ask asks for a password on the terminal.
type Ask func(ctx context.Context, prompt string) ([]byte, error)

// Access returns the password, "" where there is no user, and the configuration of TLS, nil where there is none. It reads
// files, and asks by ask, which is nil where nobody can be asked.
func (n *Name) Access(ctx context.Context, ask Ask) (password string, config *tls.Config, err error) {
	if config, err = n.tls(time.Now()); err != nil {
		return "", nil, err
	}
	password, err = n.password(ctx, ask)
	return password, config, err
}

// mostPassword is longer than any password, in bytes.
const mostPassword = 4096

func (n *Name) password(ctx context.Context, ask Ask) (string, error) {
	switch variable := os.Getenv(PasswordVariable); {
	case n.User == "":
		return "", nil
	case n.PasswordFile != "":
		return passwordFrom(n.PasswordFile)
	case strings.ContainsAny(variable, "\r\n"):
		return "", fmt.Errorf("%s has several lines; it must hold the password and nothing else", PasswordVariable)
	case variable != "":
		return variable, nil
	case ask == nil:
		return "", fmt.Errorf("user %s: %w", n.User, ErrNoPassword)
	}
	text, err := ask(ctx, fmt.Sprintf("Password of %s at %s: ", n.User, strings.Join(n.Hosts, ",")))
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("user %s: the password that was typed is empty", n.User)
	}
	return string(text), err
}

func passwordFrom(name string) (string, error) {
	text, err := secretfile.Read(name, secretfile.Kind{Name: "password file", Remedy: "change the password", Most: mostPassword})
	if err != nil {
		return "", fmt.Errorf("password-file: %w%s", err, tilde(name))
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > mostPassword:
		return "", fmt.Errorf("password-file: %s has more than %d bytes, so it is no password", name, mostPassword)
	case strings.TrimSpace(password) == "":
		return "", fmt.Errorf("password-file: %s is empty; write the password to it, in one line", name)
	case strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("password-file: %s has several lines; it must hold the password and nothing else", name)
	}
	return password, nil
}

// tilde says why a file is missing that a shell would have found.
func tilde(name string) string {
	if strings.HasPrefix(name, "~") {
		return "; ~ is not replaced within a URL: write the folder out"
	}
	return ""
}

func (n *Name) tls(now time.Time) (*tls.Config, error) {
	if n.CA == "" && !n.SystemAuthorities {
		return nil, nil
	}
	config := &tls.Config{ServerName: n.ServerName, MinVersion: tls.VersionTLS12}
	if n.CA != "" {
		authorities, err := certificates("ca", n.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		for _, c := range authorities {
			config.RootCAs.AddCert(c)
		}
		// A file may have old ones beside new ones.
		latest := slices.MaxFunc(authorities, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if err := inTime("ca", n.CA, latest, now); err != nil {
			return nil, err
		}
	}
	if n.Cert == "" {
		return config, nil
	}
	pair, err := n.pair(now)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// mostPEM is longer than the file of all authorities of a system, in bytes.
const mostPEM = 4 << 20

// certificates reads those of a file, at least one.
func certificates(option, name string) ([]*x509.Certificate, error) {
	text, err := readPublic(option, name)
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	key := false
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		key = key || strings.HasSuffix(block.Type, "PRIVATE KEY")
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %s holds a certificate that cannot be read: %w", option, name, err)
		}
		all = append(all, c)
	}
	switch {
	case len(all) == 0 && key:
		return nil, fmt.Errorf("%s: %s holds a private key and no certificate; name the certificate", option, name)
	case len(all) == 0:
		return nil, fmt.Errorf("%s: %s holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", option, name)
	}
	return all, nil
}

func readPublic(option, name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no file %s: %w%s", option, name, fs.ErrNotExist, tilde(name))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: %s is a folder; name the file in it", option, name)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostPEM))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return text, nil
}

func inTime(option, name string, c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("%s: the certificate in %s was valid until %s: take a newer one", option, name, c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("%s: the certificate in %s is valid from %s on: check the clock of this machine", option, name, c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// pair reads the client's certificate, whose chain may follow it, and its key.
func (n *Name) pair(now time.Time) (tls.Certificate, error) {
	none := tls.Certificate{}
	chain, err := certificates("cert", n.Cert)
	if err != nil {
		return none, err
	}
	leaf := chain[0]
	if err := inTime("cert", n.Cert, leaf, now); err != nil {
		return none, err
	}
	if len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return none, fmt.Errorf("cert: the certificate in %s is not made for clients (clientAuth): take one that is", n.Cert)
	}
	text, err := secretfile.Read(n.Key, secretfile.Kind{Name: "private key", Remedy: "replace the key and its certificate", Most: mostPEM})
	if err != nil {
		return none, fmt.Errorf("key: %w%s", err, tilde(n.Key))
	}
	block, rest := pem.Decode(text)
	for block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY") { // parameters of the curve come first
		block, rest = pem.Decode(rest)
	}
	switch {
	case block == nil:
		return none, fmt.Errorf("key: %s holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----", n.Key)
	case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return none, fmt.Errorf("key: the private key in %s is encrypted, which is not supported: decrypt it ('openssl pkey -in FILE -out NEW') into a file with mode 600", n.Key)
	}
	var certs []byte
	for _, c := range chain {
		certs = append(certs, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	pair, err := tls.X509KeyPair(certs, pem.EncodeToMemory(block))
	if err != nil && strings.Contains(err.Error(), "does not match") {
		return none, fmt.Errorf("key: the private key in %s is not that of the certificate in %s", n.Key, n.Cert)
	}
	if err != nil {
		// Its words are about the form, and may become about more.
		return none, fmt.Errorf("key: %s holds no private key that can be read (RSA, ECDSA or Ed25519, in PEM)", n.Key)
	}
	return pair, nil
}
