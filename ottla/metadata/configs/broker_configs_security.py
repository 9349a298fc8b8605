"""Broker configurations of TLS, SASL, delegation tokens and authorization."""

from __future__ import annotations

from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    ConfigDef,
    OneOf,
    Range,
)

_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"

SECURITY_CONFIGS = [
    ConfigDef("authorizer.class.name", STRING, "", "What decides who may do what; empty lets everybody."),
    ConfigDef("super.users", STRING, None, "Principals that may do everything, separated by semicolons."),
    ConfigDef(
        "allow.everyone.if.no.acl.found", BOOLEAN, "false", "Let everybody do what no ACL speaks about."
    ),
    ConfigDef(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol among brokers.",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ),
    ConfigDef(
        "principal.builder.class",
        CLASS,
        _PRINCIPAL_BUILDER,
        "The Java class that makes a principal of a connection; not used.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "connections.max.reauth.ms", LONG, "0", "SASL clients authenticate again after this; 0: never."
    ),
    ConfigDef("security.providers", STRING, None, "Java security providers; not used."),
    # Delegation tokens
    ConfigDef("delegation.token.secret.key", PASSWORD, None, "The secret that signs delegation tokens."),
    ConfigDef(
        "delegation.token.expiry.time.ms",
        LONG,
        "86400000",
        "How long a delegation token is valid unless it is renewed.",
        Range(1),
    ),
    ConfigDef(
        "delegation.token.max.lifetime.ms",
        LONG,
        "604800000",
        "How long a delegation token can be renewed at all.",
        Range(1),
    ),
    ConfigDef(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        "3600000",
        "How often expired delegation tokens are removed.",
        Range(1),
    ),
    # SASL
    ConfigDef(
        "sasl.enabled.mechanisms", LIST, "GSSAPI", "The SASL mechanisms clients may use.", None, PER_BROKER
    ),
    ConfigDef(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "The SASL mechanism among brokers.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "sasl.jaas.config", PASSWORD, None, "The login module with user and password.", None, PER_BROKER
    ),
    ConfigDef("sasl.server.max.receive.size", INT, "524288", "The largest message while authenticating."),
    ConfigDef("sasl.server.callback.handler.class", CLASS, None, "A Java callback handler; not used."),
    ConfigDef("sasl.login.callback.handler.class", CLASS, None, "A Java callback handler; not used."),
    ConfigDef("sasl.login.class", CLASS, None, "A Java login class; not used."),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.url", STRING, None, "Where keys that sign tokens are found."),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, "3600000", "How often keys are fetched."),
    ConfigDef("sasl.oauthbearer.expected.audience", LIST, "", "The audiences a token may be meant for."),
    ConfigDef("sasl.oauthbearer.expected.issuer", STRING, None, "The issuer a token must come from."),
    ConfigDef("sasl.oauthbearer.clock.skew.seconds", INT, "30", "By how much clocks may differ."),
    ConfigDef("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim that holds the scope."),
    ConfigDef("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim that holds the subject."),
    # TLS
    ConfigDef(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate.",
        OneOf(("required", "requested", "none")),
        PER_BROKER,
    ),
    ConfigDef("ssl.keystore.location", STRING, None, "The file with key and certificate.", None, PER_BROKER),
    ConfigDef(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "The format of the file with the key, such as PEM.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.keystore.password", PASSWORD, None, "The password of the file with the key.", None, PER_BROKER
    ),
    ConfigDef("ssl.keystore.key", PASSWORD, None, "The private key itself, as PEM.", None, PER_BROKER),
    ConfigDef(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificates themselves, as PEM.",
        None,
        PER_BROKER,
    ),
    ConfigDef("ssl.key.password", PASSWORD, None, "The private key's password.", None, PER_BROKER),
    ConfigDef(
        "ssl.truststore.location",
        STRING,
        None,
        "The file with the certificates that are trusted.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "The format of the file with trusted certificates, such as PEM.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "The password of the file with trusted certificates.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The trusted certificates themselves, as PEM.",
        None,
        PER_BROKER,
    ),
    ConfigDef("ssl.protocol", STRING, "TLSv1.3", "The TLS version to aim for.", None, PER_BROKER),
    ConfigDef(
        "ssl.enabled.protocols",
        LIST,
        "TLSv1.2,TLSv1.3",
        "The TLS versions that are accepted.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.cipher.suites",
        LIST,
        "",
        "Cipher suites that may be used; empty is the library's choice.",
        None,
        PER_BROKER,
    ),
    ConfigDef(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How the host name of a certificate is checked.",
        None,
        PER_BROKER,
    ),
    ConfigDef("ssl.principal.mapping.rules", STRING, "DEFAULT", "How a certificate's name becomes a user."),
    ConfigDef("ssl.allow.dn.changes", BOOLEAN, "false", "A new certificate may carry another name."),
    ConfigDef("ssl.allow.san.changes", BOOLEAN, "false", "A new certificate may carry other alternatives."),
    ConfigDef("ssl.engine.factory.class", CLASS, None, "A Java factory; not used.", None, PER_BROKER),
    ConfigDef(
        "ssl.keymanager.algorithm", STRING, "SunX509", "Java's key manager; not used.", None, PER_BROKER
    ),
    ConfigDef(
        "ssl.trustmanager.algorithm", STRING, "PKIX", "Java's trust manager; not used.", None, PER_BROKER
    ),
    ConfigDef("ssl.provider", STRING, None, "Java's security provider; not used.", None, PER_BROKER),
    ConfigDef(
        "ssl.secure.random.implementation", STRING, None, "Java's random numbers; not used.", None, PER_BROKER
    ),
]
