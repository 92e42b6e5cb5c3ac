"""Operations on arbitrary array graphs: rebuild, verify, encode, name and print them."""
