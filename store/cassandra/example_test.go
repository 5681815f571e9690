package cassandra_test

import (
	"context"
	"log"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/cassandra"
)

// An application that has a session already, with its own credentials and TLS, shares it with the store.
func ExampleNew() {
	ctx := context.Background()
	config := gocql.NewCluster("db.example.com")
	config.Authenticator = gocql.PasswordAuthenticator{Username: "app", Password: "from your configuration"}
	config.SslOpts = &gocql.SslOptions{CaPath: "ca.pem", EnableHostVerification: true}
	session, err := config.CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	db, err := cassandra.New(ctx, session, cassandra.Options{Keyspace: "app"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close() // and give it to store.Open before
}
