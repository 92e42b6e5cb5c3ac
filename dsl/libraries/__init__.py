"""Operations on whole arrays that libraries perform."""
