"""Who may do what, and how much, as an admin client sees it: access rules, quotas, users with passwords.

The base of `AsyncAdmin` for these. This broker has none of them yet, and says so as a Kafka without them does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.client.answers import check
from barnabas.client.handle import Handle
from barnabas.protocol.requests.describe_acls import DescribeAclsRequest
from barnabas.protocol.requests.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.requests.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

_ANY = 1


class Acl(NamedTuple):
    """One rule; numbers are Kafka's (ResourceType, PatternType, AclOperation, AclPermissionType)."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class Quota(NamedTuple):
    """What one entity may use: `entity` by its type (user, client-id, ip), None for the default of that type."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class AsyncAccess(Handle):
    """The part of `AsyncAdmin` that access has."""

    async def describe_acls(self) -> list[Acl]:
        """All access rules.

        Raises:
            KafkaError: SECURITY_DISABLED: the cluster has no authorizer.
        """
        request = DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY)
        response = await self._to_any(request)
        check(response.error_code, "access rules", response.error_message)
        return [
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for each in response.resources
            for acl in each.acls
        ]

    async def describe_client_quotas(self) -> list[Quota]:
        """All quotas that are set."""
        response = await self._to_any(DescribeClientQuotasRequest([], False))
        check(response.error_code, "quotas", response.error_message)
        return [
            Quota(
                {part.entity_type: part.entity_name for part in each.entity},
                {value.key: value.value for value in each.values},
            )
            for each in response.entries or ()
        ]

    async def describe_user_scram_credentials(self) -> dict[str, list[tuple[int, int]]]:
        """By user, the mechanisms (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) there is a password for, and their iterations."""
        response = await self._to_any(DescribeUserScramCredentialsRequest(None))
        check(response.error_code, "users", response.error_message)
        return {
            each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
            for each in response.results
        }

    async def _to_any(self, request: Any) -> Any:
        raise AssertionError("the cluster's part has it")
