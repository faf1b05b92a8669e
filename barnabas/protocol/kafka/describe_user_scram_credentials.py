"""DescribeUserScramCredentials (API key 50) in Kafka's binary protocol: field table with version ranges."""

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka.schema import INT8, INT16, INT32, STRING, Api, Array, Field, Struct
from barnabas.protocol.requests.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)

_USER_NAME = Struct(
    UserName,
    Field("name", STRING, "0+"),
)
REQUEST = Struct(
    DescribeUserScramCredentialsRequest,
    Field("users", Array(_USER_NAME), "0+", nullable="0+"),
)
_CREDENTIAL_INFO = Struct(
    CredentialInfo,
    Field("mechanism", INT8, "0+"),
    Field("iterations", INT32, "0+"),
)
_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT = Struct(
    DescribeUserScramCredentialsResult,
    Field("user", STRING, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("credential_infos", Array(_CREDENTIAL_INFO), "0+"),
)
RESPONSE = Struct(
    DescribeUserScramCredentialsResponse,
    Field("throttle_time_ms", INT32, "0+"),
    Field("error_code", INT16, "0+"),
    Field("error_message", STRING, "0+", nullable="0+"),
    Field("results", Array(_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT), "0+"),
)
API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, flexible_from=0, request=REQUEST, response=RESPONSE)
