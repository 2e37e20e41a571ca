package token_test

import (
	"fmt"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func ExampleStore_Create() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	tokens, err := token.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, parent, err := tokens.Create(token.Claims{Role: token.Tenant, Tenant: "acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	secret, _, err := tokens.Create(token.Claims{Role: token.Session, Session: "chat-42", Expires: time.Now().Add(time.Hour), Parent: parent})
	if err != nil {
		fmt.Println(err)
		return
	}
	holder, err := tokens.Verify(secret)
	fmt.Println(holder.Tenant, holder.Allows("acme", "main", "chat-42"), holder.Allows("acme", "main", "chat-43"), err)
	_, err = tokens.Revoke(parent)
	_, refused := tokens.Verify(secret)
	fmt.Println(err, token.Refused(refused))
	// Output:
	// acme true false <nil>
	// <nil> true
}
